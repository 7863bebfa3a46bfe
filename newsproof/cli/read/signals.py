"""``newsproof signals`` and ``newsproof cases``: list signals and cases."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, get_args

from agents.text.wording import Language, Text, fill, joined
from newsproof.app.data_access import LogToRead, log_to_read
from newsproof.app.invocation import Invocation, parse_span, parse_time
from newsproof.app.servers import say_on_stderr
from newsproof.app.sheet import SECOND, UNWRAPPED, Columns, Sheet, Unit, json_line, json_lines, money, say_result
from newsproof.cli.options import JsonLines, Lang, Wide, command, commands, option
from newsproof.report.signals import (
    action_in_words,
    clock_times,
    one_line,
    print_signals,
    short_asset,
    short_name,
    signal_lines,
    stage_in_words,
    summary_in,
    verdict_in_words,
)
from schemas.errors import ConfigError
from schemas.printable import counted, fitted, shortened
from schemas.signals import Signal, Stage, Verdict
from streams.feed.case_items import FeedFilter, facts_of
from streams.journal.case_reading import in_short, read_cases, read_signals
from streams.journal.log import KafkaLog

app = commands()
LINE_COLUMNS = 80
"""Width of the line of a signal or a case in a file or a pipe. ``COLUMNS`` overrides it."""
STATUSES = ("open", "signal", "dropped", "failed")


@command(app, late_logs=True)
async def signals(
    invocation: Invocation,
    follow: Annotated[bool, option("Keep running, and print new signals as they arrive.", "--follow", "-f")] = False,
    asset: Annotated[list[str] | None, option("Only this asset, such as BTC. Repeatable.")] = None,
    min_confidence: Annotated[float, option("Minimum confidence, 0–1.", min=0.0, max=1.0)] = 0.0,
    verdict: Annotated[list[str] | None, option("Only this verdict, such as confirmed. Repeatable.")] = None,
    stage: Annotated[list[str] | None, option("Only this stage, such as retracted. Repeatable.")] = None,
    since: Annotated[
        str | None, option("Only signals decided since then: 30m, 2h, 3d, or a time (UTC).", metavar="WHEN")
    ] = None,
    limit: Annotated[
        int | None,
        option("Only this many of the newest signals. With --follow, it limits only the existing ones.", min=1),
    ] = None,
    wide: Wide = False,
    lang: Lang = None,
    as_json: JsonLines = False,
) -> None:
    """Show the latest revision of each signal, one line each, newest last.

    A line begins with the time of the decision (UTC): the clock time, or the day if it is 24 hours old. “leans long” and
    “leans short” are signals to observe, with the direction that the claim implies if it is true.
    """
    known = {"--verdict": (verdict, get_args(Verdict)), "--stage": (stage, get_args(Stage))}
    for name, (given, words) in known.items():
        _check(name, given or (), words)
    assets, verdicts, stages = (",".join(given or ()) for given in (asset, verdict, stage))
    wanted = FeedFilter(asset=assets, verdict=verdicts, stage=stages, min_confidence=min_confidence)
    began = None if since is None else since_when(since, now=datetime.now(UTC))

    def fits(signal: Signal) -> bool:
        return wanted.fits(facts_of(signal)) and (began is None or signal.decided_at >= began)

    language = reader_language(lang)
    async with log_to_read(invocation) as log:
        if follow:
            if log.own:
                say_on_stderr("No pipeline is running here, so no new signals will arrive: start `newsproof up`.")
            return await _follow(log, fits, limit, as_json=as_json, language=language, wide=wide)
        newest = {signal.signal_id: signal for signal, _ in await read_signals(KafkaLog(log.address), log.topics)}
        shown = sorted(filter(fits, newest.values()), key=lambda signal: signal.decided_at)[-(limit or 0) :]
        if as_json:
            return json_lines(shown)
        ids = {c.case_id: c.external_id or c.case_id[:8] for c in await read_cases(KafkaLog(log.address), log.topics)}
    title = fill("{shown} of {n:signal|signals}", "{n} 个信号中的 {shown} 个", shown=len(shown), n=len(newest))
    if wide:
        return print_signals(shown, ids, title=title, language=language, wide=True)
    say_result(joined((title, Text("times in UTC", "时间为 UTC"))).of(language))
    for line in _lines(shown, ids, language):
        say_result(line)


@command(app, late_logs=True)
async def cases(
    invocation: Invocation,
    status: Annotated[str | None, option("Only this status: open, signal, dropped or failed.")] = None,
    wide: Wide = False,
    as_json: JsonLines = False,
) -> None:
    """List all cases, one line each: when the news arrived (UTC), its id, the asset, the result and the text."""
    _check("--status", () if status is None else (status,), STATUSES)
    async with log_to_read(invocation) as log:
        rows = [c for c in await read_cases(KafkaLog(log.address), log.topics) if status in (None, c.status)]
        newest = {signal.case_id: signal for signal, _ in await read_signals(KafkaLog(log.address), log.topics)}
    for case in rows:
        if case.status == "signal" and (signal := newest.get(case.case_id)) is not None:
            case.end = in_short(signal)  # later news may have retracted the signal
    if wide or as_json:
        return Sheet.of(rows, _CASES, title=counted(len(rows), "case")).show(as_json=as_json, piped=UNWRAPPED)
    say_result(f"{counted(len(rows), 'case')}, times in UTC")
    for at, c in zip(clock_times([c.received_at for c in rows], datetime.now(UTC)), rows, strict=True):
        result = c.end if c.status == "signal" else f"{c.status}: {c.end}" if c.end else c.status
        cells = (at, short_name(c.external_id or "", c.case_id), short_asset(c.asset), fitted(result, 26))
        say_result(one_line(cells, c.text, _width()))


_CASES: Columns = {
    "news": lambda case: case.external_id or "–",
    "case": lambda case: case.case_id[:8],
    "source": "source",
    "received": ("received_at", SECOND),
    "type": "event_type",
    **{name: name for name in ("asset", "status", "end", "events", "calls")},
    "USD": ("cost_usd", Unit(partial(money, digits=4))),
    "text": lambda case: shortened(case.text, 50),
}


def reader_language(chosen: Language | None) -> Language:
    """Return the chosen language, else that of the environment if it is Chinese, else English."""
    names = (os.environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return chosen or ("zh" if next(filter(None, names), "").lower().startswith("zh") else "en")


def since_when(written: str, *, now: datetime) -> datetime:
    """Return the time that ``--since`` names: a span before ``now`` such as 2h, or a time.

    Raises:
        ConfigError: it is neither.
    """
    try:
        seconds = parse_span(written)
        return parse_time("--since", written) if seconds is None else now - timedelta(seconds=seconds)
    except (ConfigError, OverflowError) as exc:
        raise ConfigError(f"--since {written!r:.40} is not a time: write 30m, 2h, 3d, or 2026-01-31T14:00:00Z") from exc


def _check(option: str, given: Iterable[str], known: Sequence[str]) -> None:
    if unknown := [value for value in given if value not in known]:
        raise ConfigError(f"{option} {unknown[0]!r} is unknown: write {', '.join(known)}")


def _lines(signals: Sequence[Signal], ids: dict[str, str], language: Language) -> list[str]:
    return signal_lines(signals, ids, now=datetime.now(UTC), language=language, width=_width())


def _width() -> int:
    return shutil.get_terminal_size((LINE_COLUMNS, 24)).columns


async def _follow(
    log: LogToRead, fits: Callable[[Signal], bool], limit: int | None, *, as_json: bool, language: Language, wide: bool
) -> None:
    from newsproof.sdk.client import subscribe

    def show(signal: Signal) -> None:
        if as_json:
            json_line(signal)
        else:
            say_result(_in_full(signal, language) if wide else _lines([signal], {}, language)[0])

    # The existing signals are in several partitions, which a subscriber reads one after the other.
    before = [signal for signal, _ in await read_signals(KafkaLog(log.address), log.topics)]
    for signal in list(filter(fits, before))[-(limit or 0) :]:
        show(signal)
    seen = {earlier.signal_id: earlier.revision for earlier in sorted(before, key=lambda earlier: earlier.revision)}
    every = subscribe(
        verdicts=None, actions=None, preliminary=True, start="earliest", kafka=log.address, prefix=log.topics.prefix
    )
    async for signal in every:
        if signal.revision > seen.get(signal.signal_id, 0) and fits(signal):
            show(signal)


def _in_full(signal: Signal, language: Language) -> str:
    action, stage, verdict = (
        words.of(language)
        for words in (action_in_words(signal), stage_in_words(signal.stage), verdict_in_words(signal))
    )
    return (
        f"{signal.decided_at:%Y-%m-%d %H:%M:%S}  {signal.asset or '–':<6} {action:<16}"
        f"{signal.preliminary_confidence:.2f} → {signal.confidence:.2f}  {stage:<11} "
        f"{verdict:<18}  {signal.case_id[:8]}  {summary_in(signal, language)}"
        f"  [{' '.join(signal.risk_flags)}]"
    )
