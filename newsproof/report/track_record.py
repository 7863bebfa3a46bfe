"""The public track record: every signal of a period, losers and retractions included, each revision with its proof. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from xml.sax.saxutils import escape

import msgspec

from newsproof.app.sheet import MINUTE, Columns, Sheet, Unit, document
from newsproof.report.html_report import PAGE_STYLE, folded
from schemas.signals import ACTED_ON, WITHDRAWN, Signal
from streams.record.roots import Proof
from streams.reputation.intervals import wilson

ORDERS = ("buy", "sell")


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The market's return from the entry after a case to its horizon, as a share. ``source``: of the prices."""

    market_return: float
    source: str
    exit_at: datetime


class TrackRow(msgspec.Struct, frozen=True, kw_only=True):
    """One signal. ``ordered``: its first revision with an order, which is what a bot acted on; None: it never had one.

    ``result``: ``hit`` or ``miss`` of that order at the report's horizon; ``withdrawn`` before the horizon was over, when
    nobody held it that long; ``no_price``; ``no_order``. ``proofs``: of each revision, as ``record prove`` prints them;
    fewer than ``revisions`` as long as a revision's day is not published.
    """

    signal_id: str
    case_id: str
    decided_at: datetime
    asset: str
    action: str
    direction: str
    verdict: str | None
    stage: str
    confidence: float
    provider_mode: str
    news_source: str
    summary: str
    revisions: int
    ordered: int | None
    result: str
    directed_return: float | None
    price_source: str
    proofs: tuple[Proof, ...]


class TrackGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the orders in a group. ``low`` and ``high``: Wilson's 95 % interval of ``hit_rate`` = hits / (hits + misses).

    ``at_least``: the hit rate if every withdrawn order had been a miss.
    """

    group: str
    orders: int
    hits: int
    misses: int
    withdrawn: int
    no_price: int
    hit_rate: float | None
    low: float
    high: float
    at_least: float | None


class TrackRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a period (UTC days). ``signals`` by time; ``groups`` by verdict and by source."""

    since: str
    until: str
    horizon_s: int
    groups: tuple[TrackGroup, ...]
    signals: tuple[TrackRow, ...]


def track_record(
    revisions: Iterable[Signal],
    proofs: Mapping[tuple[str, int], Proof],
    outcomes: Mapping[str, Outcome],
    *,
    since: str,
    until: str,
    horizon_s: int,
) -> TrackRecord:
    """Return the record. ``proofs`` by signal and revision, ``outcomes`` by case at this horizon."""
    of: defaultdict[str, dict[int, Signal]] = defaultdict(dict)
    for signal in revisions:
        of[signal.signal_id][signal.revision] = signal
    rows = [_row([known[n] for n in sorted(known)], proofs, outcomes) for known in of.values()]
    rows.sort(key=lambda row: (row.decided_at, row.signal_id))
    ordered = [row for row in rows if row.ordered is not None]
    groups = [_group("all orders", ordered)]
    for name in ("verdict", "news_source", "provider_mode"):
        by_group: defaultdict[str, list[TrackRow]] = defaultdict(list)
        for row in ordered:
            by_group[f"{name}: {getattr(row, name) or 'unknown'}"].append(row)
        groups += [_group(group, by_group[group]) for group in sorted(by_group)]
    return TrackRecord(since=since, until=until, horizon_s=horizon_s, groups=tuple(groups), signals=tuple(rows))


def _row(
    revisions: Sequence[Signal], proofs: Mapping[tuple[str, int], Proof], outcomes: Mapping[str, Outcome]
) -> TrackRow:
    last = revisions[-1]
    order = next((r for r in revisions if r.action in ORDERS and r.verdict in ACTED_ON and r.stage == "final"), None)
    outcome = outcomes.get(last.case_id)
    withdrawn = next((r.decided_at for r in revisions if r.stage in WITHDRAWN), None)
    result, gain = "no_order", None
    if order is not None:
        if withdrawn is not None and (outcome is None or withdrawn <= outcome.exit_at):
            result = "withdrawn"
        elif outcome is None:
            result = "no_price"
        else:
            gain = outcome.market_return * (1 if order.action == "buy" else -1)
            result = "hit" if gain > 0 else "miss"
    shown = order or last
    return TrackRow(
        signal_id=last.signal_id,
        case_id=last.case_id,
        decided_at=shown.decided_at,
        asset=shown.asset,
        action=shown.action,
        direction=shown.direction,
        verdict=shown.verdict,
        stage=last.stage,
        confidence=shown.confidence,
        provider_mode=last.provider_mode,
        news_source=last.news_source,
        summary=shown.summary_en or shown.summary,
        revisions=len(revisions),
        ordered=order.revision if order else None,
        result=result,
        directed_return=gain,
        price_source=outcome.source if outcome else "",
        proofs=tuple(proofs[key] for r in revisions if (key := (r.signal_id, r.revision)) in proofs),
    )


def _group(name: str, rows: Sequence[TrackRow]) -> TrackGroup:
    count = {result: sum(row.result == result for row in rows) for result in ("hit", "miss", "withdrawn", "no_price")}
    judged = count["hit"] + count["miss"]
    low, high = wilson(count["hit"], judged)
    worst = judged + count["withdrawn"]
    return TrackGroup(
        group=name,
        orders=len(rows),
        hits=count["hit"],
        misses=count["miss"],
        withdrawn=count["withdrawn"],
        no_price=count["no_price"],
        hit_rate=count["hit"] / judged if judged else None,
        low=low,
        high=high,
        at_least=count["hit"] / worst if worst else None,
    )


def warning_of(record: TrackRecord) -> str:
    """Return what makes these figures worthless for a reader: offline signals and synthetic prices; "" if neither."""
    ordered = [row for row in record.signals if row.ordered is not None]
    offline = sum(row.provider_mode != "live" for row in ordered)
    synthetic = sum(row.price_source.startswith("synthetic") for row in ordered)
    parts = [f"{offline} of {len(ordered)} orders are not live"] * bool(offline)
    parts += [f"{synthetic} were judged on synthetic prices"] * bool(synthetic)
    return f"{' and '.join(parts)}, so these figures say nothing about a real market. " if parts else ""


def track_page(record: TrackRecord, *, written_at: str) -> str:
    """Return the record as one self-contained HTML page without scripts. Equal arguments give equal bytes."""
    hours = record.horizon_s / 3600
    about = (
        f"Every signal of {record.since} to {record.until} (UTC), losers and retractions included, written {written_at}. "
        f"An order is a hit if the price has moved in its direction {hours:g} h after the entry. Orders that were retracted or "
        "superseded before then are counted as “withdrawn”; “at least” counts each of them as a miss. The interval assumes that "
        f"orders are independent; those of one day are not, so it is rather too narrow. {warning_of(record)}"
        "Check a proof with docs/check_proof.py, without Newsproof."
    )
    signals = Sheet.of(
        record.signals,
        _SIGNALS,
        title="All signals: each order as first published, every other signal in its latest revision",
    )
    body = [
        f"<h1>Track record</h1><p>{escape(about)}</p>",
        folded(groups_sheet(record, title="Orders by group")),
        folded(signals) or "<p>No signal was published in this period.</p>",
        *map(_proofs_of, record.signals),
    ]
    return document("Newsproof track record", PAGE_STYLE, "".join(body))


def _proofs_of(row: TrackRow) -> str:
    lines = "".join(f"<pre>{escape(msgspec.json.encode(proof).decode())}</pre>" for proof in row.proofs)
    heading = f"Proofs of {row.signal_id} ({len(row.proofs)} of {row.revisions} revisions)"
    return f"<details><summary>{escape(heading)}</summary>{lines}</details>"


_GROUPS: Columns = {
    **{name.replace("_", " "): name for name in ("group", "orders", "hits", "misses", "withdrawn", "no_price")},
    "hit rate": ("hit_rate", ".1%"),
    "95 % interval": (lambda group: f"{group.low:.1%} … {group.high:.1%}", Unit(str)),
    "at least": ("at_least", ".1%"),
}
_SIGNALS: Columns = {
    "decided (UTC)": ("decided_at", MINUTE),
    **{name: name for name in ("asset", "action", "verdict")},
    "confidence": ("confidence", ".2f"),
    "stage now": "stage",
    "result": ("result", Unit(lambda result: result.replace("_", " "), right=False)),
    "return": ("directed_return", ".1%"),
    "source": "news_source",
    "what it said": "summary",
}


def groups_sheet(record: TrackRecord, *, title: str) -> Sheet:
    """Return how often the orders of each group were right."""
    return Sheet.of(record.groups, _GROUPS, title=title)
