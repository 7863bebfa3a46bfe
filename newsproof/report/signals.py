"""Signals in words, and as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from agents.text.wording import Language, Text, fill, headings, joined, term
from newsproof.app.sheet import PIPE_COLUMNS, UNWRAPPED, Columns, Sheet, Unit, say_result
from schemas.calibration import SignalCalibration
from schemas.printable import columns_of, fitted, shortened
from schemas.signals import EXPIRED, NO_ASSET, WITHDRAWN, Signal, Stage


def verdict_in_words(signal: Signal) -> Text:
    """Return the verdict; an unchecked one with its reason, such as “unchecked (gate)”."""
    if signal.verdict is None:
        return Text("no verdict (published by the rules of before)", "无结论（由旧规则发布）")
    if signal.unchecked_reason is None:
        return term(signal.verdict)
    why = term(signal.unchecked_reason)
    return fill("{verdict} ({why})", "{verdict}（{why}）", verdict=term(signal.verdict), why=why)


def action_in_words(signal: Signal) -> Text:
    """Return the action; for ``observe``, also the direction that the claim implies; for an expired order, that it is."""
    meant = signal.action == "observe" and signal.direction != "neutral"
    beside = (signal.direction,) if meant else (EXPIRED,) if EXPIRED in signal.risk_flags else ()
    return joined(map(term, (signal.action, *beside)), " · ", " · ")


def calibration_in_words(signal: Signal) -> Text | None:
    """Return how often signals like it came true, with the 95 % interval; None without a fitted curve of its horizon."""
    of, at = signal.calibration, signal.confidence_calibrated
    if not isinstance(of, SignalCalibration) or at is None:
        return None
    words = fill(
        "the price moves over 10 bp in its direction within {h} h: {at:.2f} (95 % interval {low:.2f}–{high:.2f}, from {n:story|stories})",
        "{h} 小时内价格朝信号方向波动超过 10 个基点：{at:.2f}（95% 区间 {low:.2f}–{high:.2f}，依据 {n} 个事件）",
        h=signal.horizon // 3600, at=at, low=of.low, high=of.high, n=of.n_stories,
    )  # fmt: skip
    if of.p_true is None:
        return words
    stands = fill("the claim still holds after 14 days: {p:.2f}", "14 天后消息仍然成立：{p:.2f}", p=of.p_true)
    return joined((words, stands), " · ", " · ")


def asset_in_words(asset: str) -> Text:
    """Return the asset of a signal or a draft, in words if it has none."""
    return Text("no asset", "无对应资产") if asset in {"", NO_ASSET} else Text(asset, asset)


def stage_in_words(stage: Stage) -> Text:
    """Return the stage of a signal."""
    return Text("final", "最终") if stage == "final" else term(stage)


def summary_in(signal: Signal, language: Language) -> str:
    """Return the summary in this language, else in the language of the news."""
    return (signal.summary_zh if language == "zh" else signal.summary_en) or signal.summary


def action_in_short(signal: Signal) -> Text:
    """Return the action, or for ``observe`` which way the claim leans if it is true, unless the signal was withdrawn."""
    if EXPIRED in signal.risk_flags:
        return term(EXPIRED)
    if signal.action != "observe" or signal.direction == "neutral" or signal.stage in WITHDRAWN:
        return term(signal.action)
    return Text(f"leans {signal.direction}", {"long": "偏多", "short": "偏空"}[signal.direction])


def clock_times(times: Sequence[datetime], now: datetime) -> list[str]:
    """Return each time of the clock (UTC), or the day if it is 24 hours old, all of the same width."""
    texts = [f"{at:%H:%M:%S}" if now - at < timedelta(days=1) else f"{at:%Y-%m-%d}" for at in times]
    return [text.ljust(max(map(len, texts))) for text in texts]


def one_line(cells: Sequence[str], text: str, width: int) -> str:
    """Return the cells and as much of the text as fits into ``width`` columns."""
    head = " ".join((*cells, ""))
    return (head + fitted(text, max(2, width - columns_of(head)))).rstrip()


def short_name(external_id: str, case_id: str) -> str:
    """Return the news's own id, or the beginning of the case's if that is long, because a cut id finds nothing."""
    return fitted(external_id if 0 < len(external_id) <= 8 else case_id[:8], 8)


def short_asset(asset: str) -> str:
    """Return the cell of an asset. The mark for none is ASCII: the width of a dash depends on the font."""
    return fitted("-" if asset in ("", NO_ASSET) else asset, 6)


def signal_lines(
    signals: Sequence[Signal], ids: dict[str, str], *, now: datetime, language: Language, width: int
) -> list[str]:
    """Return one line a signal, of at most ``width`` columns: time, case, asset, action, confidence, verdict, claim.

    ``ids``: the news's own id by case id.
    """
    action, verdict = (6, 6) if language == "zh" else (11, 11)
    lines = []
    for at, signal in zip(clock_times([s.decided_at for s in signals], now), signals, strict=True):
        judged = signal.verdict if signal.stage == "final" else signal.stage
        known = signal.claim_zh if language == "zh" else signal.claim_en
        claim = known if isinstance(known, str) and known else summary_in(signal, language)
        cells = (
            at,
            short_name(ids.get(signal.case_id, ""), signal.case_id),
            short_asset(signal.asset),
            fitted(action_in_short(signal).of(language), action),
            f"{signal.confidence:.2f}",
            fitted(term(judged or "none").of(language), verdict),
        )
        lines.append(one_line(cells, claim, width))
    return lines


def print_in(
    language: Language, items: Iterable[Any], columns: Columns, *, title: Text, piped: int = PIPE_COLUMNS
) -> None:
    """Print a sheet in this language: its headings, its title, and the cells that exist in both."""
    sheet = Sheet.of(items, columns)
    rows = [[cell.of(language) if isinstance(cell, Text) else cell for cell in row] for row in sheet.rows]
    heads, right = headings(sheet.columns, language), headings(sheet.right, language)
    Sheet(heads, rows, title.of(language), right).print(piped=piped)


def print_signals(
    signals: Sequence[Signal],
    ids: dict[str, str] | None = None,
    *,
    title: Text | None = None,
    language: Language = "en",
    wide: bool = False,
) -> None:
    """Print the newest revision of each signal. ``ids`` maps a case id to a short name, such as the news's own id.

    ``wide``: with flags and summary, one line a signal whatever its width.
    """
    newest = {s.signal_id: s for s in signals}
    known = ids or {}
    order = {case: n for n, case in enumerate(known)}
    columns: Columns = {
        "news": lambda s: known.get(s.case_id, s.case_id[:8]),
        "asset": lambda s: s.asset or "–",
        "action": action_in_words,
        "confidence": lambda s: f"{s.preliminary_confidence:.2f} → {s.confidence:.2f}",
        "verdict": lambda s: joined(((term(s.stage) if s.stage != "final" else ""), verdict_in_words(s))),
        "support": ("supporting_sources", Unit(_number)),
        "sources": ("independent_sources", Unit(_number)),
    }
    more: Columns = {
        "flags": lambda s: " ".join(s.risk_flags),
        "summary": lambda s: shortened(summary_in(s, language), 60),
    }
    shown = sorted(newest.values(), key=lambda s: order.get(s.case_id, 0))
    name, piped = title or Text("Signals", "信号"), UNWRAPPED if wide else PIPE_COLUMNS
    print_in(language, shown, {**columns, **more} if wide else columns, title=name, piped=piped)
    meant = Text(
        "support: sources that support the claim, once per owner; sources: independent ones, whatever they say.",
        "支持信源：支持该说法的信源，同一所有者只计一次；信源：独立信源，无论其内容。",
    )
    say_result(meant.of(language))


def _number(count: int | None) -> str:
    return "–" if count is None else str(count)
