"""The judging of ``./run eval``: by quotes and witnesses, with given stances or only the word rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from agents.core.answers import SlotsAnswer
from agents.evidence import assess
from agents.evidence.measurements import measured
from agents.evidence.policy import Conclusion, conclude, is_thin
from agents.evidence.verdict import Judgement
from agents.evidence.witnesses import check_pages, judge_evidence
from agents.planning.critic_reading import by_slots
from lab.eval.evaluate import (
    CaseResult,
    Evaluation,
    JudgedCase,
    claim_of_case,
    draft_of,
    result_of,
    results_of,
    totals,
)
from schemas.config import Snapshot
from schemas.errors import ConfigError
from schemas.evidence import Findings, PageStance
from schemas.signals import Signal


class GivenStance(msgspec.Struct, frozen=True, kw_only=True):
    """A careful reader's entry for one page, in place of the critic's: a stance, or ``says`` and slots."""

    stance: str | None = None
    quote: str | None = None
    same_subject: bool | None = None
    same_event: bool | None = None
    amount: str | None = None
    speaks_for: str | None = None
    cites: str | None = None
    reason: str | None = None
    says: str | None = None
    subject: str | None = None
    act: str | None = None
    stage: str | None = None
    place: str | None = None
    date: str | None = None


class GivenStances(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a stances file; ``stances`` in the order of the case's evidence."""

    id: str | int
    stances: tuple[GivenStance, ...]


FORMS = (
    'write {"id", "stances": [...]} with one entry for each page, in the order of the evidence: {"stance": "supports|denies|hedges|earlier|unrelated", '
    '"same_subject", "same_event", "amount"} or {"says": "affirms|denies|hedges|nothing", "subject", "act", "stage", "place", "amount", '
    '"date": each "agrees|differs|silent"}, both with "quote", "speaks_for": "party|authority|other" and "cites" (docs/verification.md)'
)
"""The two forms of an entry, for errors."""
_SLOTS = ("subject", "act", "stage", "place", "amount", "date")
Oracle = Mapping[str, tuple[GivenStance, ...]]


def read_oracle(file: Path) -> Oracle:
    """Return case id → stances.

    Raises:
        ConfigError: the file cannot be read, or a line is not an entry; the text names the line.
    """
    try:
        lines = file.read_bytes().removeprefix(b"\xef\xbb\xbf").splitlines()
    except OSError as exc:
        raise ConfigError(f"{file}: {exc.strerror}; name a file with the stances of one case a line") from exc
    out = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            given = msgspec.json.decode(line, type=GivenStances)
            for stance in given.stances:
                _entry(1, stance)
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            raise ConfigError(f"{file.name}, line {number}: {exc}; {FORMS}") from exc
        out[str(given.id)] = given.stances
    return out


def evaluate(cases: Iterable[tuple[int, JudgedCase]], snapshot: Snapshot, oracle: Oracle | None = None) -> Evaluation:
    """Judge every (line number, case), with the stances of ``oracle`` or only the word rules.

    Raises:
        ConfigError: the oracle does not have one stance per page of a case.
    """
    return totals(tuple(judge_case(line, case, snapshot, oracle) for line, case in cases))


def judge_case(line: int, case: JudgedCase, snapshot: Snapshot, oracle: Oracle | None = None) -> CaseResult:
    """Judge one case.

    Raises:
        ConfigError: the oracle does not have one stance per page of the case.
    """
    claim = claim_of_case(case)
    findings = assess(claim, results_of(case), query="", snapshot=snapshot)
    stances = None if oracle is None else _stances_of(claim.as_of, case, findings, _given(case, oracle))
    heard = check_pages(claim, findings.references, stances, snapshot)
    judgement = judge_evidence(
        claim,
        heard,
        snapshot=snapshot,
        by_words=stances is None,
        measured=measured(claim, case.measurements) if case.measurements else None,
    )
    end = conclude(draft_of(case), judgement, thin=is_thin(judgement, heard))
    return compared(line, case, findings, judgement, end)


def compared(
    line: int, case: JudgedCase, findings: Findings, judgement: Judgement, end: Conclusion | Signal
) -> CaseResult:
    """Compare a case's judgement, and the resulting confidence and order, with its expectations."""
    got: dict[str, Any] = {name: getattr(judgement, name) for name in _JUDGED}
    got["risk_flags"] = list(dict.fromkeys((*findings.risk_flags, *judgement.flags, *end.risk_flags)))
    acts = end.action != "observe"
    return result_of(
        line, case, findings, got, confidence=end.confidence, rule=judgement.verdict,
        unsupported=acts and judgement.supporting_sources == 0 and not case.measurements,
    )  # fmt: skip


_JUDGED = (
    *("independent_sources", "official_confirmed", "denied", "conflict", "stale", "verdict", "supporting_sources"),
)


def _stances_of(
    news_at: datetime, case: JudgedCase, findings: Findings, given: Sequence[GivenStance]
) -> list[PageStance]:
    by_page = {(e.url, e.title or ""): g for e, g in zip(case.evidence or (), given, strict=True)}
    entries = [(r, _entry(r.reference_number, by_page[r.url, r.title])) for r in findings.references]
    return [entry if entry.says is None else by_slots(entry, r, news_at) for r, entry in entries]


def _given(case: JudgedCase, oracle: Oracle) -> tuple[GivenStance, ...]:
    given, pages = oracle.get(str(case.id)), len(case.evidence or ())
    if given is None or len(given) != pages:
        count = "none" if given is None else str(len(given))
        raise ConfigError(
            f"case {case.id} has {pages} pages and {count} stances: give one for each page, in their order"
        )
    return given


def _entry(number: int, given: GivenStance) -> PageStance:
    known = {name: value for name, value in msgspec.structs.asdict(given).items() if value is not None}
    if given.says is not None:
        # A page that says nothing needs no slots: whatever they were, it would be unrelated.
        blank = {**dict.fromkeys(_SLOTS, "silent"), "speaks_for": "other"} if given.says == "nothing" else {}
        everything = {"number": number, "quote": None, "cites": None, **blank, **known}
        return msgspec.convert(everything, SlotsAnswer).page_stance()
    return msgspec.convert({"reference_number": number, **known}, PageStance)
