"""Which code decided a run, so that a difference caused by the code is not taken for one caused by the prompt. Pure.

Today's code replays a candidate prompt. If other code recorded the cases, a difference from ``live`` has both causes. The log
holds the hash of each request, not the request, so it does not say what the recording's code declared. It does say whether
today's code, with nothing changed, sends the recorded requests (:class:`QuestionCounts`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from agents.core.registry import Registry
from schemas.config import Prompt
from schemas.ids import LIVE_RUN, content_hash
from schemas.printable import counted

Declarations = Mapping[str, Mapping[str, str]]
"""Step → name → hash, for each function that the step declares to a model, and for ``reply of PROMPT``, the schema of a reply."""
_SHOWN = 4
REPLY = "reply of "


class QuestionCounts(msgspec.Struct, frozen=True):
    """Requests of one step to a model, with nothing changed: ``otherwise`` of ``asked`` have another hash than recorded."""

    asked: int
    otherwise: int


class RunCode(msgspec.Struct, frozen=True, kw_only=True):
    """The code that decided the signals of a run.

    ``code``: its versions; ``live`` may have several, and empty means that they were not kept. ``recorded_code``: the versions
    that recorded the cases which the run replays. ``declarations``: None if not kept. ``questions``: by step, the requests of
    today's code in ``looked_at`` cases; empty if the same code recorded them. ``baseline``: the run finished, with no prompt and
    no model changed.
    """

    run_id: str
    code: tuple[str, ...]
    recorded_code: tuple[str, ...] = ()
    declarations: Declarations | None = None
    questions: Mapping[str, QuestionCounts] = {}
    looked_at: int = 0
    changed_prompts: tuple[str, ...] = ()
    baseline: bool = False

    @property
    def recording(self) -> RunCode:
        """The live judgements that this run replays."""
        return RunCode(run_id=LIVE_RUN, code=self.recorded_code)


class CodeChange(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs that different code decided. Code that was not kept is unknown, and never counts as the same.

    ``declarations``: step → names of what the two declare differently; None if one of them is unknown. ``questions`` and
    ``looked_at`` are those of the run that replays the other, else empty.
    """

    a: str
    b: str
    code_a: tuple[str, ...]
    code_b: tuple[str, ...]
    declarations: Mapping[str, tuple[str, ...]] | None
    questions: Mapping[str, QuestionCounts] = {}
    looked_at: int = 0
    sent: Declarations = {}

    @property
    def text(self) -> str:
        """The change, in one sentence without a full stop."""
        return f"{self.a} was decided by {_versions(self.code_a)}, {self.b} by {_versions(self.code_b)}: {self.what}"

    @property
    def is_unknown(self) -> bool:
        """Whether the code of one of the runs was not kept."""
        return not self.code_a or not self.code_b

    @property
    def what(self) -> str:
        """The steps that differ, and in what, as far as known."""
        if self.declarations is not None:
            named = [f"{step} sends {_names(names)} in another form" for step, names in self.declarations.items()]
            return (
                "; ".join(named)
                or "every declaration and reply schema is the same, but the steps may use them differently"
            )
        if not self.looked_at:
            return "which model requests differ is unknown"
        others = {step: q for step, q in self.questions.items() if q.otherwise}
        parts = [
            f"{step} sends a request other than the recorded one in {q.otherwise} of {q.asked} calls"
            + (f" (unknown whether because of its {_names(_wholes(self.sent[step]))})" if self.sent.get(step) else "")
            for step, q in others.items()
        ]
        never = [step for step in self.sent if step not in self.questions]
        if not parts:
            parts = [
                "every request without your prompt equals the recorded one, but the steps may use the replies differently"
            ]
        if never:
            parts.append(f"unknown for {', '.join(never)}, which no recorded case reached")
        return f"{'; '.join(parts)} ({counted(self.looked_at, 'case')} checked)"


def code_change_note(about: RunCode, *, options: str = "") -> str:
    """Return a note on the code of a run and that of its recording; empty if they are the same.

    ``options``: those of the run that a baseline needs, too, such as ``--sample-log``.
    """
    change = code_change(about.recording, about)
    if change is None:
        return ""
    recorded, now = _versions(change.code_a), _versions(change.code_b)
    note = f"The code has changed since the recording (recorded by {recorded}; this is {now}): {change.what}."
    if not about.changed_prompts:
        return f"{note} No prompt is changed, so a difference between this run and `live` is due to the code."
    return (
        f"{note} A difference between this run and `live` is due to the code as well as your prompt. Make a baseline first: "
        f"newsproof backtest run {options}--run-id baseline"
    )


def declarations_of(registry: Registry, prompts: Mapping[str, Prompt]) -> dict[str, dict[str, str]]:
    """Return what the steps of today's code declare to models, and the reply schemas of these prompts, by step."""
    by_step: dict[str, dict[str, str]] = {}
    for step in registry.steps.values():
        hashes = {declaration.name: content_hash(declaration) for declaration in getattr(step, "declares", ())}
        prompt = prompts.get(step.name)
        if prompt is not None and prompt.schema is not None:
            hashes[f"{REPLY}{prompt.name}"] = content_hash(prompt.schema)
        if hashes:
            by_step[step.name] = hashes
    return by_step


def code_change(a: RunCode, b: RunCode) -> CodeChange | None:
    """Return how the code of two runs differs; None if the same code decided both.

    The reply schema of a prompt that one of them changes is a change of the prompt.
    """
    differ = _differing(a, b)
    same_code = len(a.code) == 1 and a.code == b.code
    if same_code and not differ:
        return None
    replays = b if a.run_id == LIVE_RUN else a
    looked = replays if LIVE_RUN in (a.run_id, b.run_id) else None
    return CodeChange(
        a=a.run_id,
        b=b.run_id,
        code_a=a.code,
        code_b=b.code,
        declarations=differ,
        questions={} if looked is None else looked.questions,
        looked_at=0 if looked is None else looked.looked_at,
        sent=(None if looked is None else looked.declarations) or {},
    )


def _differing(a: RunCode, b: RunCode) -> dict[str, tuple[str, ...]] | None:
    if a.declarations is None or b.declarations is None:
        return None
    changed = {f"{REPLY}{name}" for name in (*a.changed_prompts, *b.changed_prompts)}
    differing = {}
    for step in dict.fromkeys((*a.declarations, *b.declarations)):
        hashes_a, hashes_b = a.declarations.get(step, {}), b.declarations.get(step, {})
        names = [
            n for n in dict.fromkeys((*hashes_a, *hashes_b)) if hashes_a.get(n) != hashes_b.get(n) and n not in changed
        ]
        if names:
            differing[step] = tuple(names)
    return differing


def _versions(code: Sequence[str]) -> str:
    shown = ", ".join(code[:_SHOWN]) + (f" and {len(code) - _SHOWN} more" if len(code) > _SHOWN else "")
    return f"code {shown}" if shown else "unrecorded code"


def _wholes(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(n for n in names if "/" not in n)  # not the parts that one of them is made of


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
