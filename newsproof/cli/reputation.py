"""How ``newsproof sources`` tells the reputation of a source."""

from __future__ import annotations

from newsproof.app.data_access import log_to_read
from newsproof.app.invocation import Invocation, json_line, say_result, table
from streams.journal.clock import utc_now
from streams.journal.log import KafkaLog
from streams.reputation.fold import RATED_FROM, WINDOW, Reputation, Share
from streams.reputation.reputation_topic import compute_reputations

UNRATED = "unrated"
_FIGURES = ("first", "copies", "confirmed", "refuted", "retracted")


async def show_reputation(invocation: Invocation, *, as_json: bool) -> None:
    """Print the figures of every source as the journal has them now; they are folded anew, and nothing is written."""
    async with log_to_read(invocation) as log:
        found = await compute_reputations(KafkaLog(log.address), log.topics, utc_now())
    if as_json:
        for one in found:
            json_line(one)
        return
    columns = ("source", "language", "stories", "first", "ahead by", *_FIGURES[1:], "edited", "lag")
    table(
        columns, [(one.source, one.language, one.stories, *_cells(one)) for one in found], right=("stories", "edited")
    )
    say_result(
        f"Stories of the last {WINDOW.days} days, with 95 % intervals in brackets. Below {RATED_FROM} stories, "
        f"a source is {UNRATED}. docs/sources.md defines each metric; --json prints them for all sources."
    )


def in_short(known: tuple[Reputation, ...]) -> str:
    """Return the cell of a list: of the language with most stories; empty where nothing is written."""
    if not known:
        return ""
    most = max(known, key=lambda one: one.stories)
    return f"{_percent(most.first.share)} first, {_percent(most.retracted.share)} retracted" if most.rated else UNRATED


def in_full(one: Reputation) -> list[tuple[str, str]]:
    """Return what is known of a source in one language, line by line."""
    shares = {name: getattr(one, name) for name in _FIGURES}
    rows = {
        "stories": f"{one.stories}{'' if one.rated else f', {UNRATED} below {RATED_FROM}'}",
        "as of": f"{one.as_of:%Y-%m-%d %H:%M}",
        **{name: f"{share.count} of {share.of}  {_share(share)}".rstrip() for name, share in shares.items()},
        "tied": f"{one.tied} of {one.first.of}",
        "ahead by": _lead(one),
        "edited": str(one.edited),
        "lag": _seconds(one.lag_s),
    }
    rows["retracted"] += ", after the prior Beta(1, 19)"
    return [(f"{name}, {one.language}", value) for name, value in rows.items() if value]


def _cells(one: Reputation) -> tuple[str | int, ...]:
    if not one.rated:
        return (UNRATED, *[""] * (len(_FIGURES) + 2))
    shares = [_share(getattr(one, name)) for name in _FIGURES]
    return (shares[0], _lead(one), *shares[1:], one.edited, _seconds(one.lag_s))


def _share(of: Share) -> str:
    return "" if of.share is None else f"{_percent(of.share)} ({100 * of.low:.0f} to {100 * of.high:.0f})"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def _lead(one: Reputation) -> str:
    if (lead := one.lead_s) is None:
        return ""
    return _seconds(lead.median) + (
        "" if lead.low is None or lead.high is None else f" ({lead.low:.0f} to {lead.high:.0f})"
    )


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.0f} s"
