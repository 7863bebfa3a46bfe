"""Commands of outcomes: import prices, forget a source, write the synthetic file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from newsproof.app.invocation import json_line, of, run

group = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="What became of signals: returns after them, from imported prices.",
)


def register(app: typer.Typer) -> None:
    """Add the group to the application."""
    app.add_typer(group, name="outcomes", rich_help_panel="Analytics and backtest")


@group.command("import")
def import_(
    ctx: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(
            help="CSV whose first line names timestamp, open, high, low, close, volume (and perhaps symbol, venue). "
            "Times: ISO 8601, UTC unless they say otherwise, or epoch seconds, milli-, micro- or nanoseconds."
        ),
    ] = None,
    exchange: Annotated[str | None, typer.Option(help="Instead of a file: an exchange's id in ccxt: binance.")] = None,
    symbol: Annotated[
        list[str] | None, typer.Option(help="The market, such as BTC/USDT; may be repeated for an exchange.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="Only cases knowable from this time on (ISO 8601).")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="Only cases knowable before this time.")] = None,
    sample: Annotated[bool, typer.Option("--sample", help="The synthetic prices that ship for the sample.")] = False,
    venue: Annotated[str, typer.Option(help="Of a file without that column.")] = "",
    map: Annotated[
        list[str] | None,
        typer.Option(
            help="ASSET=BASE/QUOTE, such as UST=USTC/USDT, or with dates: MATIC=POL/USDT@2024-09-04 (…@FROM..UNTIL); may be repeated."
        ),
    ] = None,
    timeframe: Annotated[str, typer.Option(help="Length of an exchange's bars.")] = "5m",
    entry_within: Annotated[
        float, typer.Option(min=0, help="Seconds after which a price is too late to enter at.")
    ] = 900.0,
    base_url: Annotated[str | None, typer.Option(help="Another host with the exchange's protocol, https://…")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The report as one line of JSON.")] = False,
) -> None:
    """Fill `outcomes`: returns 5m, 1h, 4h and 24h after each signal, entered at the first price once the news was knowable.

    The price at a time is the open of the first bar that opens then or later, at entry and exit alike. What has no
    price is dropped, with the reason, and the dropped share is told. Nothing is imported from a file with a wrong line.
    """
    from infra.market.outcomes.markets import renaming
    from infra.market.outcomes.synthetic import bundled_prices
    from newsproof.cli.data.outcomes import (
        EARLIEST,
        LATEST,
        CaseSelection,
        import_file,
        import_from_exchange,
        print_import,
        read_bars,
    )
    from schemas.errors import ConfigError

    if sum((file is not None, exchange is not None, sample)) != 1:
        raise ConfigError("say where prices come from: a CSV file, --exchange ID, or --sample (one of them)")
    wanted = CaseSelection(
        since=_time("--from", since, EARLIEST),
        until=_time("--to", until, LATEST),
        renamed=tuple(renaming(row) for row in map or ()),
        entry_within_s=entry_within,
    )
    if exchange is not None:
        if not symbol:
            raise ConfigError("--exchange needs --symbol: the market, such as BTC/USDT (may be repeated)")
        asked = import_from_exchange(of(ctx), exchange, symbol, wanted, timeframe=timeframe, base_url=base_url)
        report = run(asked)
    else:
        if symbol and len(symbol) > 1:
            raise ConfigError("a file without a column symbol is of one market: give --symbol once")
        prices = read_bars(file or bundled_prices(), symbol=symbol[0] if symbol else None, venue=venue)
        report = run(import_file(of(ctx), prices, wanted))
    json_line(report) if as_json else print_import(report)


@group.command()
def remove(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(help="As `import` printed it and `outcomes.source` has it.")],
) -> None:
    """Delete what was imported from one source, such as synthetic prices before the real ones."""
    from newsproof.app.invocation import say_result
    from newsproof.cli.data.outcomes import remove as removed

    say_result(f"{run(removed(of(ctx), source))} outcomes of {source} deleted.")


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
