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
    "what stood before still counts; `newsproof outcomes list` says whether the new import stands: if so, `newsproof outcomes compute` "
    "completes it, and if not, import it again"
)

group = typer.Typer(
    invoke_without_command=True,
    rich_markup_mode=None,
    help="What became of signals: returns after them, from imported prices.",
)


def register(app: typer.Typer) -> None:
    """Add the group to the application."""
    app.add_typer(group, name="outcomes")


@group.callback()
def outcomes(ctx: typer.Context) -> None:
    """What became of signals: returns after them, from imported prices. Without a command: `list`."""
    if ctx.invoked_subcommand is None:
        list_imports(ctx)


@group.command("list")
def list_imports(
    ctx: typer.Context, as_json: Annotated[bool, typer.Option("--json", help="One import a line, as JSON.")] = False
) -> None:
    """List the imports that stand, oldest first: of two that have a bar of one time, the later one's counts."""
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
            help="A file, a folder, or a pattern in quotes: CSV (comma, semicolon or tab), JSON of ccxt, or Parquet, also packed with "
            "gzip, zstd or zip. Its header names timestamp, open, high, low, close (and perhaps volume, symbol, venue); klines "
            "of Binance need none. Times: ISO 8601, UTC unless they say otherwise, or epoch seconds, milli-, micro- or nanoseconds."
        ),
    ] = None,
    columns: Annotated[
        str,
        typer.Option(
            help="Which of its columns is which, where the names do not say it: timestamp=Zeit,open=Start; numbers from 1 without a header."
        ),
    ] = "",
    exchange: Annotated[str | None, typer.Option(help="Instead of a file: an exchange's id in ccxt: binance.")] = None,
    symbol: Annotated[
        list[str] | None, typer.Option(help="The market, such as BTC/USDT; may be repeated for an exchange.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="For cases knowable from this time on (ISO 8601); what another import asks for is measured, too.",
        ),
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="For cases knowable before this time.")] = None,
    sample: Annotated[bool, typer.Option("--sample", help="The synthetic prices that ship for the sample.")] = False,
    venue: Annotated[str, typer.Option(help="Of a file without that column.")] = "",
    map: Annotated[
        list[str] | None,
        typer.Option(
            help="ASSET=BASE/QUOTE, such as UST=USTC/USDT, or with dates: MATIC=POL/USDT@2024-09-04 (…@FROM..UNTIL); may be repeated."
        ),
    ] = None,
    timeframe: Annotated[str, typer.Option(help="Length of an exchange's bars.")] = "5m",
    horizons: Annotated[
        str | None,
        typer.Option(
            help="How long after the entry to look, beside each signal's own horizon. Without: OUTCOME_HORIZONS."
        ),
    ] = None,
    entry_within: Annotated[
        float, typer.Option(min=0, help="Seconds after which a price is too late to enter at.")
    ] = 900.0,
    changed_by: Annotated[
        float,
        typer.Option(min=0, help="Say how many known returns change by more than this share of the entry price."),
    ] = 0.01,
    base_url: Annotated[str | None, typer.Option(help="Another host with the exchange's protocol, https://…")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The report as one line of JSON.")] = False,
) -> None:
    """Keep prices as a new import, and fill `outcomes` from all that stand: the return after each signal.

    The price at a time is the open of the first bar that opens then or later, at entry and exit alike. The entry is at the
    first price once the news was knowable, for live news once the signal was emitted. Of several imports the newest has the
    bar that counts. What has no price is dropped, with the reason. Nothing is imported from a file with a wrong line. What
    changes in known outcomes is told before it does. A file that stands already, with the same options, is not imported again.
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
        str, typer.Argument(help="As `import` printed it and `price_imports.source` has it, or its number.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="What changed, as one line of JSON.")] = False,
) -> None:
    """Forget the imports of one source, such as synthetic prices before the real ones: what was before them counts again."""
    from newsproof.cli.data.outcomes import print_removed
    from newsproof.cli.data.outcomes import remove as removed

    found = run(
        removed(of(ctx), source), interrupted="the same command completes it, and harms nothing if it was complete"
    )
    json_line(found) if as_json else print_removed(found)


@group.command()
def compute(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="What changed, as one line of JSON.")] = False,
) -> None:
    """Fill `outcomes` again from the prices that are kept: for signals that came, and horizons that ended, since the import."""
    from newsproof.cli.data.outcomes import compute_again, print_changes

    found = run(compute_again(of(ctx)), interrupted="the same command completes it")
    json_line(found) if as_json else print_changes(found)


@group.command()
def synthetic(
    out: Annotated[Path, typer.Option(help="Where to write.")],
    seed: Annotated[int, typer.Option(help="Another seed, another walk; 7 is the file that ships.")] = 7,
) -> None:
    """Write invented prices for the 42 sample events: a seeded random walk that knows nothing of the news."""
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
