"""What to look up among the pipeline's cases, as SuperAgent asked for it: known verdicts, short plain names, a bounded time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, get_args

from agents.core.answers import clamped, one_line
from agents.research.plan_check import plausible_asset
from agents.research.turn import Turn
from schemas.effects import FindSignals
from schemas.research_events import CaseQuery
from schemas.signals import Verdict

MAX_SIGNALS = 10
MAX_NAMES = 6
MAX_SPELLINGS = 8
MAX_NAME_CHARACTERS = 60
NEWEST_HOURS = 14 * 24
NAMED_HOURS = 90 * 24
"""How far back is looked where the question names no time: for what is newest, and for something that it names."""


def case_query(said: Any) -> CaseQuery:
    """Return the query in a model's words, whatever they are; one of nothing asks for the newest signals."""
    fields = said if isinstance(said, dict) else {}
    asset, hours = fields.get("asset"), fields.get("hours")
    names = tuple(filter(None, map(_spellings, _list(fields.get("names"))[:MAX_NAMES])))
    asked = clamped(float(hours), 0.0, NAMED_HOURS) if isinstance(hours, int | float) else 0.0
    return CaseQuery(
        asset=plausible_asset(asset, otherwise="") if isinstance(asset, str) else "",
        names=names,
        verdicts=tuple(v for v in get_args(Verdict) if v in _list(fields.get("verdicts"))),
        hours=int(asked) or (NAMED_HOURS if names else NEWEST_HOURS),
    )


def looking_up(turn: Turn) -> FindSignals:
    """Return the look-up of a turn that was routed to ``cases``."""
    assert turn.routed is not None and turn.routed.cases is not None
    query = turn.routed.cases
    return FindSignals(
        asset=query.asset,
        since=turn.as_of - timedelta(hours=query.hours),
        as_of=turn.as_of,
        limit=MAX_SIGNALS,
        names=query.names,
        verdicts=query.verdicts,
    )


def _list(said: Any) -> list[Any]:
    return said if isinstance(said, list) else []


def _spellings(said: Any) -> tuple[str, ...]:
    texts = [said] if isinstance(said, str) else [one for one in _list(said) if isinstance(one, str)]
    plain = (one_line(text, MAX_NAME_CHARACTERS) for text in texts[:MAX_SPELLINGS])
    # One sign alone would be in nearly every text.
    return tuple(dict.fromkeys(text for text in plain if len(text) > 1))
