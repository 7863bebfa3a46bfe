"""Terms of a comparison's metrics: the value of each case in A and in B, at both ends of its possible range.

A case that worked in only one run is not left out, since that would keep one kind of change and drop the other. Nor is a case
that only one run acted on and that has no price.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from agents.signal import HORIZON_S
from evaluation.compare.pairing import CaseInRun, Pair, RepeatSignal
from evaluation.compare.run_rows import PROFIT_HORIZONS, ReturnKey, Returns, Unadjusted
from evaluation.prices.trades import TRADE_COST
from evaluation.statistics.blocks import DRAWS, block_length_s
from schemas.prices import PROFIT_CAP
from schemas.printable import counted

Floats = npt.NDArray[np.float64]
Unit = Literal["probability", "share", "usd", "ms", "score", "return"]
Better = Literal["lower", "higher", "neither"]
Role = Literal["primary", "secondary", "shown"]
"""``primary``: the one metric that was declared beforehand, tested at 5 %. ``secondary``: tested, Holm-corrected as one family.
``shown``: not tested."""

Profit = Literal["profit", "profit_uncapped", "profit_adjusted", "profit_delayed"]
PROFIT: Profit = "profit"
PRIMARY = "profit@24h"
"""The default. At each signal's own horizon, up to 30 days, blocks would be so long that a few weeks could not be tested."""
_NO_BETA = (
    "no case that a run acted on has a beta: it needs bars of the asset (not BTC) and of BTC over the 30 days before the entry; "
    "import them from files (newsproof outcomes import FILE), because --exchange requests bars from the entry on only"
)
_NO_PRICE = "no case that a run acted on has a price: import prices with `newsproof outcomes import`"
_NO_DELAY = (
    "the recorded latency of reused calls is unknown: the replayed cases are not in ClickHouse (run the sink), or the log file "
    "of `backtest run --file` was moved (put it back)"
)
OWN_HORIZONS = tuple(HORIZON_S.values())
"""Horizons in seconds that a signal may have as its own."""


class Scoring(msgspec.Struct, frozen=True, kw_only=True):
    """How figures are made. ``cap`` bounds the return of one case, ``trade_cost`` is what one trade costs in and out together,
    both as shares of the amount traded. ``draws``: random signs of a test; equal arguments give equal figures. ``factor`` of
    p values, and ``note`` on it (:class:`evaluation.looks.Look`).
    """

    primary: str = PRIMARY
    cap: float = PROFIT_CAP
    trade_cost: float = TRADE_COST
    seed: int = 0
    draws: int = DRAWS
    factor: int = 1
    note: str = ""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """One metric before it is tested. All arrays have a row per pair and two columns, A and B.

    The figure of a run is the sum of values over the sum of ``counts`` (0 or 1). A value lies between ``low`` and ``high``,
    which are equal where it is known, and infinite where nothing bounds it.
    """

    name: str
    unit: Unit
    better: Better
    low: Floats
    high: Floats
    counts: Floats
    horizon_s: int | None = None
    block_s: int = block_length_s()
    role: Role = "secondary"
    note: str = ""
    """The reason why nothing was measured, if so."""
    remark: str = ""
    """A remark on the metric."""
    exposed: npt.NDArray[np.bool_] | None = None
    """Of a profit: the cases in which the runs do not make the same trade."""
    shock: float = 0.0
    """Of a profit: the largest move of the sample, up to the cap. A trade may lose as much."""

    @property
    def label(self) -> str:
        """As :attr:`MetricResult.label`."""
        return self.name if self.horizon_s is None else f"{self.name}@{PROFIT_HORIZONS[self.horizon_s]}"

    @property
    def unknown(self) -> npt.NDArray[np.bool_]:
        """The values that are unknown."""
        return np.asarray((self.counts > 0) & (self.low != self.high), dtype=bool)


def profit_of(
    pairs: Sequence[Pair], returns: Returns, how: Scoring, horizon_s: int | None, *, of: Profit = "profit"
) -> Terms:
    """Return the profit of each case to whoever follows the run: 0 where it does not act, else its return less the trade's cost.

    ``horizon_s`` None: each signal's own. What a run would have earned in a case that it missed lies between losing and
    winning as far as the asset moved that the other run named, whichever horizon it would have had. What it acted on without a
    price may be anything up to the cap; where both runs made the same trade without a price, their difference is 0, and so is
    what each is said to have earned.

    ``of``: profit_uncapped has no cap; profit_adjusted takes returns less what the market did, over the cases of which each
    asset that a run names has a beta, whether it acts on it or not; profit_delayed takes the returns from each run's own entry.
    """
    low, high, counts = (np.zeros((len(pairs), 2)) for _ in range(3))
    cap = np.inf if of == "profit_uncapped" else how.cap
    of_runs = (returns.own or (Returns(), Returns())) if of == "profit_delayed" else (returns, returns)
    moves = [returns_of_run.adjusted if of == "profit_adjusted" else returns_of_run.held for returns_of_run in of_runs]
    longest, priced, unpriced, alike = horizon_s or 0, 0, 0, 0
    without = _without_beta(pairs, returns) if of == "profit_adjusted" else {}
    for n, pair in enumerate(pairs):
        if n in without:
            continue
        runs = [
            _RunTrades(judged, _earned(pair.case_id, judged, of_run.untraded, changes, horizon_s, cap, how.trade_cost))
            for judged, of_run, changes in zip((pair.a, pair.b), of_runs, moves, strict=True)
        ]
        priced += any(ran.has_price for ran in runs)
        if all(ran.lacks_price for ran in runs) and runs[0].same_trades(runs[1]):
            alike += 1
            counts[n] = 1.0
            continue
        unpriced += any(ran.lacks_price for ran in runs)
        reach = (
            max(_reach(pair, changes, horizon_s, cap) for changes in moves) if any(ran.gone for ran in runs) else 0.0
        )
        counts[n] = 1.0
        for column, ran in enumerate(runs):
            low[n, column], high[n, column] = ran.between(cap, reach, how.trade_cost)
        if horizon_s is None and (low[n, 0] != low[n, 1] or high[n, 0] != high[n, 1]):
            longest = max([longest, *(trade.horizon_s for ran in runs for trade in ran.trades if trade.side)])
    if not priced and (unpriced or alike or without):
        counts[:] = 0.0
    return Terms(
        name=of, unit="return", better="higher", low=low, high=high, counts=counts, horizon_s=horizon_s,
        block_s=block_length_s(longest),
        role="shown" if of == "profit_uncapped" else "secondary",
        note=_NO_BETA if of == "profit_adjusted" else _NO_PRICE,
        remark=_of_prices(unpriced, alike, without),
        exposed=np.array([_trades_of(pair.a) != _trades_of(pair.b) for pair in pairs], dtype=bool),
        shock=_shock(pairs, moves[0], horizon_s, cap),
    )  # fmt: skip


def _shock(pairs: Sequence[Pair], moves: Mapping[ReturnKey, float], horizon_s: int | None, cap: float) -> float:
    of = {(pair.case_id, signal.asset, horizon_s or signal.horizon_s) for pair in pairs for signal in _signals(pair)}
    return min(max((abs(moves[key]) for key in of if key in moves), default=0.0), cap)


TAIL = 0.05
"""The share of a run's cases that :func:`tail_of` takes: those with the lowest profit."""


def tail_of(profit: Terms) -> Terms:
    """Return the mean profit of each run's worst cases (expected shortfall, Rockafellar and Uryasev 2000, Journal of Risk 2, 21-41).

    Each case counts with its part of it: the quantile, less what it lost beyond that in proportion to the tail.
    """
    low, high = profit.low.copy(), profit.high.copy()
    for side in (0, 1):
        used = profit.counts[:, side] > 0
        if not used.any():
            continue
        edge = np.quantile((low[used, side] + high[used, side]) / 2.0, TAIL, method="lower")
        for ends in (low, high):
            ends[:, side] = np.where(used, edge + np.minimum(ends[:, side] - edge, 0.0) / TAIL, 0.0)
    remark = f"mean of the {TAIL:.0%} of each run's cases with the lowest profit"
    return msgspec.structs.replace(
        profit, name="tail", role="secondary", low=low, high=high, remark=remark, exposed=None
    )


_NO_TRUTH = (
    "no case's truth is known: import labels (newsproof labels import), or wait for official confirmations, denials and "
    "retractions"
)


def terms_of_truth(pairs: Sequence[Pair], truths: Mapping[str, float]) -> list[Terms]:
    """Judgements against truth, over the cases whose truth is known: wrong verdicts, and squared errors of the confidence."""

    def wrong(judged: CaseInRun) -> float | None:
        truth = truths.get(judged.case_id)
        return None if truth is None else float(judged.verdict == ("refuted" if truth else "confirmed"))

    def squared(judged: CaseInRun) -> float | None:
        truth, confidences = (
            truths.get(judged.case_id),
            [s.confidence for s in judged.signals if s.confidence is not None],
        )
        return (
            None
            if truth is None or not confidences
            else sum((sure - truth) ** 2 for sure in confidences) / len(confidences)
        )

    share = (0.0, 1.0)
    return [
        _paired(pairs, "truth_errors", wrong, "share", "lower", bounds=share, note=_NO_TRUTH),
        _paired(pairs, "truth_brier", squared, "score", "lower", bounds=share, note=_NO_TRUTH),
    ]


def _without_beta(pairs: Sequence[Pair], returns: Returns) -> dict[int, Unadjusted]:
    """Return the pairs in which an asset that a run names has no adjusted return, by their places, and why."""
    reasons: dict[int, Unadjusted] = {}
    for n, pair in enumerate(pairs):
        for asset in sorted(_named(pair)):
            if why := returns.unadjusted.get((pair.case_id, asset)):
                reasons[n] = why
    return reasons


def _signals(pair: Pair) -> list[RepeatSignal]:
    return [signal for judged in (pair.a, pair.b) for signal in _trades(judged) if signal.confidence is not None]


def _named(pair: Pair) -> set[str]:
    return {signal.asset for signal in _signals(pair)}


def _of_prices(unpriced: int, alike: int, without: Mapping[int, Unadjusted]) -> str:
    notes = []
    if without:
        reasons = ", ".join(f"{why} {many:,}" for why, many in sorted(Counter(without.values()).items()))
        notes.append(f"without {counted(len(without), 'case')} that have no beta: {reasons}")
    if unpriced:
        notes.append(
            f"{counted(unpriced, 'case')} without a price, on which the runs act differently: counted at both extremes"
        )
    if alike:
        notes.append(f"{counted(alike, 'case')} without a price, on which both runs make the same trade: difference 0")
    return "; ".join(notes)


class _RunTrades:
    """One case in one run: its trades, and the profit of each (None: it acted, and there is no price)."""

    def __init__(self, judged: CaseInRun | None, earned: Sequence[float | None]) -> None:
        self.trades: tuple[RepeatSignal, ...] = () if judged is None else judged.signals
        self.gone = _missing(judged)
        self._earned = earned
        self.lacks_price = any(value is None for value in earned)
        self.has_price = any(
            signal.side and value is not None for signal, value in zip(self.trades, earned, strict=True)
        )

    def same_trades(self, other: _RunTrades) -> bool:
        """Whether both make the same trades, so that their difference is 0 whatever the price."""
        return self.gone == other.gone and [signal.trade for signal in self.trades] == [
            signal.trade for signal in other.trades
        ]

    def between(self, cap: float, reach: float, cost: float) -> tuple[float, float]:
        """Return the ends of what the case earned. Not acting earns nothing, so the best of what was missed is no loss."""
        least = [-cap - cost if value is None else value for value in self._earned] or [0.0]
        most = [cap - cost if value is None else value for value in self._earned] or [0.0]
        return (
            _mixed(sum(least) / len(least), -reach - cost, self.gone),
            _mixed(sum(most) / len(most), max(reach - cost, 0.0), self.gone),
        )


def _trades_of(judged: CaseInRun | None) -> tuple[float, list[tuple[int, str, int]]]:
    return _missing(judged), [signal.trade for signal in _trades(judged)]


def _trades(judged: CaseInRun | None) -> tuple[RepeatSignal, ...]:
    return () if judged is None else judged.signals


def _missing(judged: CaseInRun | None) -> float:
    return 1.0 if judged is None else judged.missing


def _mixed(known: float, unknown: float, share: float) -> float:
    """Return the mean over all repeats of what worked and what did not; an infinite end stays out where nothing is unknown."""
    return known if not share else unknown if share == 1.0 else known * (1.0 - share) + unknown * share


def _earned(
    case_id: str,
    judged: CaseInRun | None,
    untraded: Collection[tuple[str, str]],
    moves: Mapping[ReturnKey, float],
    horizon_s: int | None,
    cap: float,
    cost: float,
) -> list[float | None]:
    """Return the profit of each repeat; None: it acted, and there is no price."""
    earned: list[float | None] = []
    for signal in _trades(judged):
        if not signal.side or (case_id, signal.asset) in untraded:
            earned.append(0.0)
            continue
        change = moves.get((case_id, signal.asset, horizon_s or signal.horizon_s))
        earned.append(None if change is None else min(max(signal.side * change, -cap), cap) - cost)
    return earned


def _reach(pair: Pair, moves: Mapping[ReturnKey, float], horizon_s: int | None, cap: float) -> float:
    """Return the largest move of the assets that the runs named, over all horizons of a signal; the cap if a price is missing."""
    horizons = (horizon_s,) if horizon_s else OWN_HORIZONS
    asset_moves = [moves.get((pair.case_id, asset, at)) for asset in _named(pair) for at in horizons]
    known = [abs(move) for move in asset_moves if move is not None]
    return min(max(known), cap) if known and len(known) == len(asset_moves) else cap


def terms_of_cases(pairs: Sequence[Pair]) -> list[Terms]:
    """Return the metrics that need no price: confidence, actions, flips, cost and latency."""
    alike = [
        pair.a is not None and pair.b is not None and pair.a.executed > 0 and pair.a.executed == pair.b.executed
        for pair in pairs
    ]
    why = _why_no_calls(pairs, alike)
    delays = [o.delay_ms for p in pairs for o in (p.a, p.b) if o is not None and o.delay_ms is not None]
    share = (0.0, 1.0)
    return [
        _paired(pairs, "confidence", lambda o: o.confidence, "probability", bounds=share, note="no case has a signal"),
        _paired(pairs, "action_rate", lambda o: o.acts, "share", bounds=share),
        _flips(pairs, "action_flips", lambda judged: judged.action),
        _flips(pairs, "verdict_flips", lambda judged: judged.verdict),
        _paired(pairs, "cost", lambda o: o.cost_usd, "usd", "lower", also=alike, note=why),
        _paired(pairs, "full_cost", lambda o: o.full_cost_usd, "usd", "lower", note="no case has a fully known cost"),
        _paired(pairs, "latency", lambda o: o.latency_ms, "ms", "lower", also=alike, note=why),
        _paired(
            pairs, "delay", lambda o: o.delay_ms, "ms", "lower", bounds=(0.0, max(delays, default=0.0)), note=_NO_DELAY
        ),
    ]


def _paired(
    pairs: Sequence[Pair],
    name: str,
    value: Callable[[CaseInRun], float | None],
    unit: Unit,
    better: Better = "neither",
    *,
    bounds: tuple[float, float] = (-np.inf, np.inf),
    also: Sequence[bool] | None = None,
    note: str = "",
) -> Terms:
    """The mean over the cases that have the value in both runs, or in the one in which they worked."""
    low, high, counts = (np.zeros((len(pairs), 2)) for _ in range(3))
    for n, pair in enumerate(pairs):
        known = [0.0 if judged is None else value(judged) for judged in (pair.a, pair.b)]
        if any(judged is None for judged in known) or (also is not None and pair.both and not also[n]):
            continue
        counts[n] = 1.0
        for column, (judged, measured) in enumerate(zip((pair.a, pair.b), known, strict=True)):
            low[n, column], high[n, column] = (_mixed(measured or 0.0, end, _missing(judged)) for end in bounds)
    return Terms(name=name, unit=unit, better=better, low=low, high=high, counts=counts, note=note)


def _flips(pairs: Sequence[Pair], name: str, word: Callable[[CaseInRun], str]) -> Terms:
    words = [(word(p.a), word(p.b)) if p.a is not None and p.b is not None else ("", "") for p in pairs]
    use = np.array([bool(word_a and word_b) for word_a, word_b in words])
    x = np.zeros((len(pairs), 2))
    x[:, 1] = [word_a != word_b for word_a, word_b in words] & use
    counts = np.repeat(use.astype(np.float64)[:, None], 2, axis=1)
    note = "no case has a verdict in both: signals of schema 1 have none"
    return Terms(name=name, unit="share", better="neither", low=x, high=x, counts=counts, role="shown", note=note)


def _why_no_calls(pairs: Sequence[Pair], alike: Sequence[bool]) -> str:
    has_a, has_b = (
        any(o is not None and o.executed for o in side) for side in zip(*((p.a, p.b) for p in pairs), strict=True)
    )
    if not has_a and not has_b:
        return "nothing was executed"
    if not (has_a and has_b):
        return f"nothing was executed in {'B' if has_a else 'A'}; full_cost compares the cost without a recording"
    if not any(alike):
        return "A and B executed different numbers of calls in every case; full_cost compares them without a recording"
    return "the price or latency of a call is unknown in every case"


def terms_of_outcomes(pairs: Sequence[Pair], returns: Returns, horizon_s: int) -> list[Terms]:
    """Hits and squared errors of what each run acted on: a run that acts less is measured on less.

    A case that a run missed it may have acted on, rightly or wrongly. So may one that it alone acted on without a price.
    """
    hits, errors, counts = np.zeros((len(pairs), 2, 2)), np.zeros((len(pairs), 2, 2)), np.zeros((len(pairs), 2))
    known = [0, 0]
    for n, pair in enumerate(pairs):
        blind = [_blind(pair.case_id, judged, returns, horizon_s) for judged in (pair.a, pair.b)]
        same = [signal.trade for signal in _trades(pair.a)] == [signal.trade for signal in _trades(pair.b)]
        for side, judged in enumerate((pair.a, pair.b)):
            scored = [] if judged is None else hits_of(pair.case_id, judged.signals, returns, horizon_s)
            unknown = max(_missing(judged), 0.0 if same else blind[side])
            if not scored and not unknown:
                continue
            counts[n, side] = 1.0
            gone = unknown if scored else 1.0
            known[side] += not gone
            many = max(len(scored), 1)
            for values, mean in (
                (hits, sum(hit for _, hit in scored) / many),
                (errors, sum((p - hit) ** 2 for p, hit in scored) / many),
            ):
                values[n, side] = [_mixed(mean, end, gone) for end in (0.0, 1.0)]
    there = any(at == horizon_s for _, _, at in returns.moved)
    note = "no outcomes at this horizon: import prices with `newsproof outcomes import`"
    if there:
        note = "one run acts on no case with an outcome that counts (the view v_outcome_coverage says why)"
    if not all(known):
        counts[:] = 0.0

    def terms(of: str, unit: Unit, better: Better, values: Floats) -> Terms:
        return Terms(
            name=of, unit=unit, better=better, low=values[:, :, 0], high=values[:, :, 1], counts=counts,
            horizon_s=horizon_s, block_s=block_length_s(horizon_s), note=note,
        )  # fmt: skip

    return [terms("hit_rate", "share", "higher", hits), terms("brier", "score", "lower", errors)]


def _blind(case_id: str, judged: CaseInRun | None, returns: Returns, horizon_s: int) -> float:
    """Return the share of repeats that acted on an asset without a price at this horizon."""
    if judged is None:
        return 0.0
    without = [
        signal
        for signal in judged.signals
        if signal.side
        and (case_id, signal.asset) not in returns.untraded
        and (case_id, signal.asset, horizon_s) not in returns.held
    ]
    return len(without) / len(judged.signals)


def hits_of(case_id: str, every: Sequence[RepeatSignal], returns: Returns, horizon_s: int) -> list[tuple[float, float]]:
    """Return (confidence, hit) of each repeat that acted. A price that did not move is neither a hit nor a miss."""
    hits = []
    for signal in every:
        move = returns.moved.get((case_id, signal.asset, horizon_s)) if signal.side else None
        if move and signal.confidence is not None:
            hits.append((signal.confidence, float(signal.side * move > 0)))
    return hits
