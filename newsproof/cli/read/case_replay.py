"""``newsproof case replay``: replays one case and shows the recorded and the replayed signal side by side."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec

from agents.graphs import verification
from evaluation.replay.candidates import ReplayBuilder, candidate_prompts, refuse_offline
from evaluation.replay.journal import FileSource, LogSource, Source, recordings, survey
from evaluation.replay.log_file import read_log_file
from evaluation.runs.backtest import log_and_tables, model_ports
from evaluation.runs.performer import AsOfMemory, CostLimit, CostLimitReached, Performer, replay_one
from evaluation.runs.run_tables import total_cost
from evaluation.runs.topic import RunProgress
from newsproof.app.invocation import Invocation
from newsproof.app.sheet import json_line, money, say_result, table
from schemas.errors import ConfigError
from schemas.events import Event, EventReceived, SignalSynthesized
from streams.journal.log import KafkaLog
from streams.replay import Change, Recording, Replayed

LEFT_OUT = frozenset({"schema_version", "signal_id", "case_id", "revision", "supersedes"})
"""Fields left out of the comparison: they identify the signal rather than describe it."""


async def show_replay(
    invocation: Invocation,
    wanted: str,
    *,
    prompts: Sequence[str],
    from_step: str | None,
    max_cost: float,
    sample_log: bool,
    as_json: bool,
) -> None:
    """Replay one case and print the differences.

    Raises:
        ConfigError: the case, step or prompt does not exist, or the case has not ended; the text lists what exists.
    """
    change = Change(prompts=candidate_prompts(invocation.settings(), prompts))
    refuse_offline(invocation.settings(), change.prompts)
    steps = verification().steps
    if from_step is not None and from_step not in steps:
        raise ConfigError(f"there is no step {from_step!r}: write one of {', '.join(steps)}")
    async with log_and_tables(invocation, reads_log=not sample_log) as (log, tables):
        source: Source = (
            FileSource(read_log_file()) if sample_log else await LogSource.made(KafkaLog(log.address), log.topics)
        )
        recording = await find_recording(source, wanted)
        _refuse(recording, source, from_step)
        ports = model_ports(log.settings, tables)
        memory = AsOfMemory(tables, mode=log.settings.mode)
        performer = Performer(
            ports, CostLimit(Decimal(str(max_cost))), RunProgress(), None, on_miss="fail", memory=memory
        )
        try:
            replayed = await replay_one(
                ReplayBuilder(verification(), source.snapshots, change), recording, performer, from_step
            )
        except CostLimitReached:
            raise ConfigError(f"--max-cost {max_cost:g} does not cover the next call: give a larger one") from None
        finally:
            await ports.close()
    if as_json:
        json_line(_document(recording, replayed))
    else:
        _print(recording, replayed)


async def find_recording(source: Source, wanted: str) -> Recording:
    """Return the ended case with this id, this unambiguous id prefix (at least 4 characters), or this news id.

    Raises:
        ConfigError: no case or several cases match.
    """
    ended = (await survey(source)).ended
    exact = frozenset(c for c in ended if len(wanted) >= 4 and c.startswith(wanted.lower()))
    found: list[Recording] = []
    async for recording in recordings(source, (lambda _id: True) if not exact else exact.__contains__):
        opening = recording.received
        named = isinstance(opening, EventReceived) and opening.part is None and opening.news.external_id == wanted
        if exact or named:
            found.append(recording)
    if len(found) == 1:
        return found[0]
    some = ", ".join(r.case_id for r in found[:5])
    raise ConfigError(
        f"{len(found)} ended cases match {wanted!r}"
        + (
            f" ({some}): name one case id"
            if found
            else ": `newsproof cases` lists them; an open case cannot be replayed"
        )
    )


def _refuse(recording: Recording, source: Source, from_step: str | None) -> None:
    if recording.unreadable:
        raise ConfigError(f"case {recording.case_id} cannot be replayed: {recording.unreadable}")
    if recording.received.config_hash not in source.snapshots:
        raise ConfigError(
            f"case {recording.case_id} cannot be replayed: its configuration {recording.received.config_hash} "
            "is not on the configs topic"
        )
    if from_step is None:
        return
    registry = verification()
    came = [s.name for r in recording.records if (s := registry.step_after(r.event)) is not None]
    if from_step not in came:
        passed = ", ".join(dict.fromkeys(came))
        raise ConfigError(f"case {recording.case_id} never reached {from_step}; it went through {passed}")


def _document(recording: Recording, replayed: Replayed) -> dict[str, Any]:
    return {
        "case_id": recording.case_id,
        "status": replayed.status,
        "reason": replayed.reason,
        "recorded": _end(recording.end),
        "replayed": _end(replayed.end),
        "executed": replayed.count("executed"),
        "reused": replayed.count("reused"),
        "missed": replayed.count("miss"),
        "cost_usd": _cost(replayed),
    }


def _end(end: Event | None) -> Any:
    if end is None:
        return None
    return msgspec.to_builtins(
        end.signal if isinstance(end, SignalSynthesized) else msgspec.structs.replace(end, calls=())
    )


def _cost(replayed: Replayed) -> Decimal | None:
    return total_cost(c for u in replayed.used if u.execution == "executed" for c in u.calls)


def _print(recording: Recording, replayed: Replayed) -> None:
    say_result(f"Case {recording.case_id}: {recording.received.news.text[:100]}")
    steps = ", ".join(dict.fromkeys(u.step for u in replayed.used if u.execution == "executed")) or "nothing"
    say_result(
        f"Called again: {steps} ({replayed.count('executed')} calls, {money(_cost(replayed))} USD); "
        f"{replayed.count('reused')} replies reused"
    )
    if replayed.status != "replayed":
        say_result(f"It was not replayed to the end ({replayed.status}): {replayed.reason}")
        return
    before, after = _end(recording.end), _end(replayed.end)
    names = [n for n in dict.fromkeys([*before, *after]) if n not in LEFT_OUT]
    rows = [
        ("" if before.get(n) == after.get(n) else "≠", n, _shown(before.get(n)), _shown(after.get(n))) for n in names
    ]
    changed = sum(1 for row in rows if row[0])
    title = "Nothing differs" if not changed else f"{changed} fields differ"
    table(("", "field", "recorded", "replayed"), rows, title=title)


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"{len(value)}: " + "; ".join(_short(v) for v in value) if value else "–"
    return "–" if value is None else f"{value}"


def _short(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    kept = [n for n in ("rule", "amount", "name", "version", "stance", "url") if n in value]
    return " ".join(str(value[n]) for n in kept)
