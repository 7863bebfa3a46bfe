"""``newsproof outcomes``: imports and removes prices, and computes the returns after signals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from newsproof.app.invocation import Invocation, parse_time
from newsproof.app.sheet import UNWRAPPED, Columns, Sheet, advise, json_line, json_lines, say_result
from newsproof.app.sheet import figures_table as table
from newsproof.cli.options import JsonReport, ListGroup, argument, command, commands, json_flag, option
from schemas.errors import ConfigError
from schemas.printable import counted

if TYPE_CHECKING:
    from infra.market.outcomes.bar_files import PriceFile
    from infra.market.outcomes.tables import Changes
    from newsproof.cli.measure.price_imports import ImportReport, Preview, RemovedImports, StandingImport

app = commands()
JsonChanges = Annotated[bool, json_flag("Print the changes as one line of JSON.")]
_REASONS = ("no_symbol", "no_price", "gap", "halted", "horizon_open")
_INTERRUPTED = (
    "earlier imports still apply. If `newsproof outcomes list` shows the new import, complete it with "
    "`newsproof outcomes compute`; otherwise import it again"
)
group = typer.Typer(
    cls=ListGroup,
    rich_markup_mode=None,
    help="Returns after signals, computed from imported prices. Without a command: `list`.",
)
app.add_typer(group, name="outcomes")


@command(group, "list")
async def list_imports(
    invocation: Invocation,
    as_json: Annotated[bool, json_flag("Print JSON, one import per line.")] = False,
) -> None:
    """List active imports, oldest first. The latest one wins for each bar."""
    from newsproof.cli.measure.price_imports import active_imports

    imports = await active_imports(invocation)
    json_lines(imports) if as_json else print_imports(imports)


@command(group, "import", interrupted=_INTERRUPTED)
async def import_(
    invocation: Invocation,
    file: Annotated[
        Path | None,
        argument(
            "A file, a folder or a quoted pattern: CSV (comma, semicolon or tab), ccxt JSON or Parquet, "
            "optionally compressed with gzip, zstd or zip. Columns: timestamp, open, high, low, close "
            "(optional: volume, symbol, venue). Binance klines need no header. Times are ISO 8601 (UTC by "
            "default) or epoch seconds, milli-, micro- or nanoseconds."
        ),
    ] = None,
    columns: Annotated[str, option("Column names, if they differ: timestamp=Zeit,open=Start.")] = "",
    exchange: Annotated[
        str | None, option("Download prices from this exchange (ccxt id, such as binance) instead of reading a file.")
    ] = None,
    symbol: Annotated[list[str] | None, option("Market, such as BTC/USDT. Repeatable with --exchange.")] = None,
    since: Annotated[
        str | None,
        option(
            "Only for cases whose news could be known at or after this time (ISO 8601). Cases that other active "
            "imports cover are measured, too.",
            "--from",
        ),
    ] = None,
    until: Annotated[str | None, option("Only for cases whose news could be known before this time.", "--to")] = None,
    sample: Annotated[bool, option("Import the bundled synthetic prices of the sample.", "--sample")] = False,
    venue: Annotated[str, option("Venue of a file without that column.")] = "",
    map: Annotated[
        list[str] | None,
        option(
            "Map an asset to a market: ASSET=BASE/QUOTE, such as UST=USTC/USDT. With dates: "
            "MATIC=POL/USDT@2024-09-04 or …@FROM..UNTIL. Repeatable."
        ),
    ] = None,
    timeframe: Annotated[str, option("Bar length for --exchange.")] = "5m",
    horizons: Annotated[
        str | None,
        option(
            "Times after the entry at which to measure the return, in addition to each signal's own horizon. "
            "Default: OUTCOME_HORIZONS."
        ),
    ] = None,
    entry_within: Annotated[float, option("Maximum delay of the entry price, in seconds.", min=0)] = 900.0,
    changed_by: Annotated[
        float, option("Count the known returns that change by more than this share of the entry price.", min=0)
    ] = 0.01,
    base_url: Annotated[str | None, option("Another host with the exchange's API, such as a mirror: https://…")] = None,
    as_json: JsonReport = False,
) -> None:
    """Import prices, and compute the return after each signal.

    The price at a time is the open of the first bar at or after it, for entry and exit. The entry is the first price after the
    news could be known; for live news, after the signal was published. Returns go to the table `outcomes`. The latest active import wins for each bar. Signals without a
    price are dropped, with the reason. A file with a wrong line imports nothing. Changes to known outcomes are shown before they
    are made. A file that is already active with the same options is not imported again.
    """
    from infra.market.outcomes.markets import renaming
    from newsproof.cli.measure.price_imports import (
        EARLIEST,
        LATEST,
        CaseSelection,
        horizon_seconds,
        import_file,
        import_from_exchange,
    )

    if sum((file is not None, exchange is not None, sample)) != 1:
        raise ConfigError("give one of these: a price file, --exchange ID, or --sample")
    wanted = CaseSelection(
        since=EARLIEST if since is None else parse_time("--from", since),
        until=LATEST if until is None else parse_time("--to", until),
        renamed=tuple(renaming(row) for row in map or ()),
        entry_within_s=entry_within,
        horizons_s=horizon_seconds(invocation.settings().outcome_horizons if horizons is None else horizons),
        changed_by=changed_by,
    )
    tell = None if as_json else print_preview
    if exchange is not None:
        if not symbol:
            raise ConfigError("--exchange needs --symbol: the market, such as BTC/USDT (may be repeated)")
        how: dict[str, Any] = {"timeframe": timeframe, "base_url": base_url, "tell": tell}
        report = await import_from_exchange(invocation, exchange, symbol, wanted, **how)
    else:
        prices = _prices(file, symbol or [], venue, columns)
        report = await import_file(invocation, prices, wanted, tell=tell)
    json_line(report) if as_json else print_import(report)


@command(group, interrupted="repeat the command to complete it; a second run does no harm")
async def remove(
    invocation: Invocation,
    source: Annotated[
        str, argument("Source as `import` printed it (`price_imports.source`), or the number of an import.")
    ],
    as_json: JsonChanges = False,
) -> None:
    """Delete one source's imports.

    For example, delete synthetic prices before you import real ones. Earlier imports of the same bars apply again.
    """
    from newsproof.cli.measure.price_imports import remove_imports

    removed = await remove_imports(invocation, source)
    json_line(removed) if as_json else print_removed(removed)


@command(group, interrupted="repeat the command to complete it")
async def compute(invocation: Invocation, as_json: JsonChanges = False) -> None:
    """Recompute `outcomes` from the stored prices.

    Adds the signals and horizons that are new since the import.
    """
    from newsproof.cli.measure.price_imports import CHANGED_BY, compute_again

    changes = await compute_again(invocation)
    json_line(changes) if as_json else _say_changes(changes, CHANGED_BY, "This computation")


@group.command()
def synthetic(
    out: Annotated[Path, option("Output file.")],
    seed: Annotated[int, option("Random seed. 7 reproduces the bundled file.")] = 7,
) -> None:
    """Write synthetic prices for the 42 sample events.

    They are a seeded random walk, independent of the news.
    """
    from infra.market.outcomes.synthetic import synthetic_csv

    out.write_text(synthetic_csv(seed), "utf-8")


def _prices(file: Path | None, symbols: list[str], venue: str, columns: str) -> PriceFile:
    from infra.market.outcomes.bar_files import read_bars
    from infra.market.outcomes.synthetic import bundled_prices

    if len(symbols) > 1:
        raise ConfigError("a file without a column symbol is of one market: give --symbol once")
    symbol = symbols[0] if symbols else None
    return read_bars(file or bundled_prices(), symbol=symbol, venue=venue, columns=_columns(columns))


def _columns(written: str) -> dict[str, str]:
    roles = ("timestamp", "open", "high", "low", "close", "volume", "symbol", "venue")
    columns = {}
    for text in written.split(",") if written else ():
        role, equals, name = text.partition("=")
        if role.strip() not in roles or not (equals and name.strip()):
            raise ConfigError(f"--columns {text!r:.60}: write NAME=COLUMN with a name of {', '.join(roles)}")
        columns[role.strip()] = name.strip()
    return columns


def print_preview(preview: Preview) -> None:
    """Print what an import adds and changes, before it becomes active."""
    say_result(f"{counted(preview.bars, 'bar')} for {', '.join(preview.markets) or 'no market'} from {preview.source}")
    for overlap in filter(lambda overlap: overlap.beyond, preview.overlaps):
        say_result(
            f"{overlap.market}: {counted(overlap.bars, 'bar')} overlap with import {overlap.version} ({overlap.source}); {overlap.beyond:,} of them differ by "
            f"more than {preview.changed_by:.2%}; median {overlap.median:.4%}, maximum {overlap.largest:.2%}"
        )
    if alike := [overlap for overlap in preview.overlaps if not overlap.beyond]:
        say_result(
            f"{counted(sum(overlap.bars for overlap in alike), 'bar')} overlap with earlier imports ({len(alike)} markets and imports) and differ "
            f"by {max(overlap.largest for overlap in alike):.4%} at most"
        )
    _say_changes(preview.changes, preview.changed_by, "This import")


def _say_changes(of: Changes, share: float, begin: str) -> None:
    known = (
        f"; of {of.known:,} known ones, {of.gone:,} are removed and {of.moved:,} change, {of.beyond:,} of them by more than "
        f"{share:.2%} of the entry price"
    )
    say_result(f"{begin}: {counted(of.new, 'new outcome')}{known if of.known else ''}")
    for source, outcomes in sorted(of.gone_before_bars.items()):
        say_result(
            f"{source} loses {counted(outcomes, 'outcome')} from a version that did not store prices: import it again"
        )


def print_import(report: ImportReport) -> None:
    """Print the totals of all imports, after this one."""
    state = "already has these bars, so nothing was imported" if report.already else "is now active"
    say_result(f"Import {report.version} ({report.source}) {state}")
    rows = [
        msgspec.structs.asdict(at) | {reason: at.dropped.get(reason, 0) for reason in _REASONS}
        for at in report.horizons
    ]
    same = {name: name for name in ("horizon", "signals", "outcomes", *_REASONS)}
    columns: Columns = {**same, "dropped": ("dropped_share", ".1%")}
    Sheet.of(rows, columns, title="Outcomes of all active imports").print(piped=UNWRAPPED)
    if report.not_mapped:
        named = ", ".join(f"{asset} ({signals})" for asset, signals in report.not_mapped.items())
        say_result(f"No market for the signals on: {named}. If an asset was renamed, use --map ASSET=BASE/QUOTE.")
    ways = sorted({how for by in report.coverage.values() for how in by}, key=lambda how: (how != "counted", how))
    if ways:
        covered = [(horizon, *(by.get(how, 0) for how in ways)) for horizon, by in report.coverage.items()]
        table(("horizon", *ways), covered, title="All live signals (v_outcome_coverage)", right=ways)


def print_imports(imports: Sequence[StandingImport]) -> None:
    """Print the active imports as a table."""
    if not imports:
        advise("No prices imported. Import some with `newsproof outcomes import`.")
        return
    columns: Columns = {
        "import": "version",
        "source": "source",
        "imported at": "imported_at",
        "bars": "bars",
        "markets": lambda price_import: _few(price_import.markets),
        **{"from": "from_at", "to": "to_at", "horizons": "horizons", "maps": "maps"},
    }
    Sheet.of(imports, columns, title="Active imports").print(piped=UNWRAPPED)


def _few(markets: tuple[str, ...]) -> tuple[str, ...]:
    return markets if len(markets) <= 4 else (*markets[:3], f"and {len(markets) - 3} more")


def print_removed(removed: RemovedImports) -> None:
    """Print what a removal changed, and the imports that remain."""
    versions = ", ".join(str(version) for version in removed.versions)
    say_result(f"Import {versions} ({', '.join(removed.sources)}) was removed: {counted(removed.bars, 'bar')}")
    _say_changes(removed.changes, removed.changed_by, "This removal")
    say_result(f"Active imports, oldest first: {', '.join(removed.standing) or 'none'}")
