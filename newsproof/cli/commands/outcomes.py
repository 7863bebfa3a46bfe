"""Commands of outcomes: import prices, forget them, compute again, write the synthetic file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from newsproof.app.invocation import json_line, of, run

if TYPE_CHECKING:
    from infra.market.outcomes.bar_files import PriceFile

_INTERRUPTED = (
    "earlier imports still apply. If `newsproof outcomes list` shows the new import, complete it with "
    "`newsproof outcomes compute`; otherwise import it again"
)

group = typer.Typer(
    invoke_without_command=True,
    rich_markup_mode=None,
    help="Returns after signals, computed from imported prices. Without a command: `list`.",
)


def register(app: typer.Typer) -> None:
    """Add the group to the application."""
    app.add_typer(group, name="outcomes")


@group.callback()
def outcomes(ctx: typer.Context) -> None:
    """Returns after signals, computed from imported prices. Without a command: `list`."""
    if ctx.invoked_subcommand is None:
        list_imports(ctx)


@group.command("list")
def list_imports(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one import per line.")] = False,
) -> None:
    """List active imports, oldest first. The latest one wins for each bar."""
    from newsproof.cli.data.outcomes import listed, print_imports

    found = run(listed(of(ctx)))
    if not as_json:
        return print_imports(found)
    for one in found:
        json_line(one)


@group.command("import")
def import_(
    ctx: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(
            help="A file, a folder or a quoted pattern: CSV (comma, semicolon or tab), ccxt JSON or Parquet, "
            "optionally compressed with gzip, zstd or zip. Columns: timestamp, open, high, low, close "
            "(optional: volume, symbol, venue). Binance klines need no header. Times are ISO 8601 (UTC by "
            "default) or epoch seconds, milli-, micro- or nanoseconds."
        ),
    ] = None,
    columns: Annotated[
        str,
        typer.Option(help="Column names, if they differ: timestamp=Zeit,open=Start."),
    ] = "",
    exchange: Annotated[
        str | None,
        typer.Option(help="Download prices from this exchange (ccxt id, such as binance) instead of reading a file."),
    ] = None,
    symbol: Annotated[
        list[str] | None, typer.Option(help="Market, such as BTC/USDT. Repeatable with --exchange.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Only for cases knowable at or after this time (ISO 8601). Cases that other imports ask for are "
            "measured, too.",
        ),
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="Only for cases knowable before this time.")] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Import the bundled synthetic prices of the sample.")
    ] = False,
    venue: Annotated[str, typer.Option(help="Venue of a file without that column.")] = "",
    map: Annotated[
        list[str] | None,
        typer.Option(
            help="Map an asset to a market: ASSET=BASE/QUOTE, such as UST=USTC/USDT. With dates: "
            "MATIC=POL/USDT@2024-09-04 or …@FROM..UNTIL. Repeatable."
        ),
    ] = None,
    timeframe: Annotated[str, typer.Option(help="Bar length for --exchange.")] = "5m",
    horizons: Annotated[
        str | None,
        typer.Option(
            help="Times after the entry at which to measure the return, in addition to each signal's own horizon. "
            "Default: OUTCOME_HORIZONS."
        ),
    ] = None,
    entry_within: Annotated[float, typer.Option(min=0, help="Maximum delay of the entry price, in seconds.")] = 900.0,
    changed_by: Annotated[
        float,
        typer.Option(min=0, help="Count the known returns that change by more than this share of the entry price."),
    ] = 0.01,
    base_url: Annotated[
        str | None, typer.Option(help="Another host with the exchange's API, such as a mirror: https://…")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as one line of JSON.")] = False,
) -> None:
    """Import prices, and compute the return after each signal into `outcomes`.

    The price at a time is the open of the first bar at or after it, for entry and exit. The entry is the first price after the
    news was knowable; for live news, after the signal was emitted. The latest active import wins for each bar. Signals without a
    price are dropped, with the reason. A file with a wrong line imports nothing. Changes to known outcomes are shown before they
    are made. A file that is already active with the same options is not imported again.
    """
    from infra.market.outcomes.markets import renaming
    from newsproof.cli.data.outcomes import (
        EARLIEST,
        LATEST,
        CaseSelection,
        horizon_seconds,
        import_file,
        import_from_exchange,
        print_import,
        print_preview,
    )
    from schemas.errors import ConfigError

    if sum((file is not None, exchange is not None, sample)) != 1:
        raise ConfigError("say where prices come from: a file, --exchange ID, or --sample (one of them)")
    wanted = CaseSelection(
        since=_time("--from", since, EARLIEST),
        until=_time("--to", until, LATEST),
        renamed=tuple(renaming(row) for row in map or ()),
        entry_within_s=entry_within,
        horizons_s=horizon_seconds(of(ctx).settings().outcome_horizons if horizons is None else horizons),
        changed_by=changed_by,
    )
    tell = None if as_json else print_preview
    if exchange is not None:
        if not symbol:
            raise ConfigError("--exchange needs --symbol: the market, such as BTC/USDT (may be repeated)")
        work = import_from_exchange(
            of(ctx), exchange, symbol, wanted, timeframe=timeframe, base_url=base_url, tell=tell
        )
    else:
        work = import_file(of(ctx), _prices(file, symbol or [], venue, columns), wanted, tell=tell)
    report = run(work, interrupted=_INTERRUPTED)
    json_line(report) if as_json else print_import(report)


@group.command()
def remove(
    ctx: typer.Context,
    source: Annotated[
        str, typer.Argument(help="Source as `import` printed it (`price_imports.source`), or the number of an import.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the changes as one line of JSON.")] = False,
) -> None:
    """Delete one source's imports, such as synthetic prices before real ones. Earlier imports apply again."""
    from newsproof.cli.data.outcomes import print_removed
    from newsproof.cli.data.outcomes import remove as removed

    found = run(removed(of(ctx), source), interrupted="repeat the command to complete it; a second run does no harm")
    json_line(found) if as_json else print_removed(found)


@group.command()
def compute(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print the changes as one line of JSON.")] = False,
) -> None:
    """Recompute `outcomes` from stored prices, for signals and horizons that are new since the import."""
    from newsproof.cli.data.outcomes import compute_again, print_changes

    found = run(compute_again(of(ctx)), interrupted="repeat the command to complete it")
    json_line(found) if as_json else print_changes(found)


@group.command()
def synthetic(
    out: Annotated[Path, typer.Option(help="Output file.")],
    seed: Annotated[int, typer.Option(help="Random seed. 7 reproduces the bundled file.")] = 7,
) -> None:
    """Write synthetic prices for the 42 sample events: a seeded random walk, independent of the news."""
    from infra.market.outcomes.synthetic import synthetic_csv

    out.write_text(synthetic_csv(seed), "utf-8")


def _time(option: str, written: str | None, otherwise: datetime) -> datetime:
    from schemas.errors import ConfigError

    if written is None:
        return otherwise
    try:
        at = datetime.fromisoformat(written)
    except ValueError:
        raise ConfigError(
            f"{option} {written!r:.40} is no time: write it like 2024-01-31 or 2024-01-31T14:00:00Z"
        ) from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


def _prices(file: Path | None, symbols: list[str], venue: str, columns: str) -> PriceFile:
    from infra.market.outcomes.bar_files import read_bars
    from infra.market.outcomes.synthetic import bundled_prices
    from schemas.errors import ConfigError

    if len(symbols) > 1:
        raise ConfigError("a file without a column symbol is of one market: give --symbol once")
    symbol = symbols[0] if symbols else None
    return read_bars(file or bundled_prices(), symbol=symbol, venue=venue, columns=_columns(columns))


def _columns(written: str) -> dict[str, str]:
    from schemas.errors import ConfigError

    roles = ("timestamp", "open", "high", "low", "close", "volume", "symbol", "venue")
    found = {}
    for one in written.split(",") if written else ():
        role, equals, name = one.partition("=")
        if role.strip() not in roles or not (equals and name.strip()):
            raise ConfigError(f"--columns {one!r:.60}: write NAME=COLUMN with a name of {', '.join(roles)}")
        found[role.strip()] = name.strip()
    return found
