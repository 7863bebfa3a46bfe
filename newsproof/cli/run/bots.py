"""``newsproof bots``: list, run, check, halt and resume bots."""

from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from newsproof.app.invocation import Invocation, of, run
from newsproof.app.servers import say_on_stderr, servers
from newsproof.app.sheet import Columns, Sheet, Unit, json_line, say_result, show
from newsproof.cli.options import JsonLines, JsonObject, ListGroup, argument, command, commands, json_flag, option

if TYPE_CHECKING:
    from schemas.deliveries import Planned, Settled

app = commands()
bots = typer.Typer(cls=ListGroup, add_completion=False, rich_markup_mode=None)
app.add_typer(bots, name="bots", help="List, run, check, halt and resume bots. They are defined in BOTS_FILE.")
Name = Annotated[str, argument("Name of the bot in BOTS_FILE.", show_default=False)]
NameOrAll = Annotated[str | None, argument("Name of the bot in BOTS_FILE. Default: all bots.", show_default=False)]


@command(bots, "list", late_logs=True)
async def list_bots(invocation: Invocation, as_json: JsonLines = False) -> None:
    """List the bots, with positions, deliveries, profit and halts.

    Shows for each bot the positions that live signals ask for, the positions that it holds, what it sent and refused, its paper
    profit, and who halted it.
    """
    from infra.bots.table import PRICES
    from newsproof.app.data_access import open_log
    from newsproof.app.processes.bots import bots_of
    from newsproof.app.processes.bots_view import BotsReader
    from newsproof.web.processes import Processes

    bots = bots_of(invocation.settings())  # a wrong file is reported before a server starts
    async with open_log(invocation, clickhouse=any(bot.prices == "imported" for bot in bots.values())) as log:
        at = log.settings
        prices = {name: partial(make, at) for name, make in PRICES.items()}
        reader = BotsReader(log.address, log.topics, prices)
        try:
            processes, _ = await Processes(at.newsproof_data_dir).look()
            rows = await reader.items(bots, {process.name: process.state for process in processes})
        finally:
            await reader.close()
    columns: Columns = {
        "bot": "name",
        "kind": "kind",
        "mode": lambda row: "" if row["kind"] == "notify" else row["mode"],
        "desired": ("desired", Unit(_number_desired)),
        "open": "open",
        "pending exits": "pending_exits",
        "entries today": "entries_today",
        "open profit": ("paper", Unit(_open_profit)),
        "halted by": lambda row: row["halted_by"] or "",
    }
    Sheet.of(rows, columns).show(as_json=as_json)


def _number_desired(wanted: Sequence[Mapping[str, Any]] | None) -> str:
    return "" if wanted is None else str(sum(position["side"] is not None for position in wanted))


def _open_profit(paper: Mapping[str, Any] | None) -> str:
    if paper is None or not paper["open"]:
        return ""
    return "no price known" if paper["open_profit"] is None else f"{paper['open_profit']:+.2%}"


@command(bots, "run", service=True)
async def run_one(invocation: Invocation, name: Name, as_json: JsonLines = False) -> None:
    """Run one bot until Ctrl-C. Print one line for each delivery.

    Run one process per bot. A second process of the same bot stops the first.
    """
    from newsproof.app.processes.bots import bot_of, run_bot

    settings = invocation.settings()
    bot = bot_of(settings, name)
    if bot.mode == "paper" and bot.kind != "notify":
        say_on_stderr(
            f'{name} is in paper mode: nothing reaches a market. Set mode = "live" in {settings.bots_file} to trade.'
        )
    async with servers(settings, clickhouse=bot.prices == "imported") as running:
        await run_bot(running.applied_to(settings), name, on_settled=_json_of if as_json else _say)


@bots.command()
def demo(
    ctx: typer.Context,
    as_json: Annotated[bool, json_flag("Print one JSON object on the last line instead of tables.")] = False,
) -> None:
    """Send the 42 sample signals to local receivers.

    The receivers are a webhook, a Telegram server and a paper book.
    """
    from newsproof.cli.run.bots_demo import bots_demo
    from newsproof.cli.run.up import ENDING

    raise typer.Exit(run(bots_demo(of(ctx).settings(), as_json=as_json), ending=ENDING))


@command(bots, late_logs=True)
async def check(invocation: Invocation, name: Name, as_json: JsonObject = False) -> None:
    """Check a bot's definition, its secret and its destination. Sends no order and no message."""
    from newsproof.app.processes.bots import check_bot

    checked = await check_bot(invocation.settings(), name)
    there = checked.get("open_at_far_side")
    ready = f"{name} ({checked['kind']}, {checked['mode']}) is ready."
    if there is not None:
        ready += f" It holds {there} open positions of this bot."
    elif checked["mode"] == "live":
        ready += " Its open positions cannot be read."
    if checked["kind"] == "notify":
        ready = f"{name} is ready. It sends messages to people and makes no orders."
    show(checked, ready, as_json=as_json)


@command(bots, late_logs=True)
async def halt(
    invocation: Invocation,
    name: NameOrAll = None,
    exit_positions: Annotated[
        bool, option("Also close all positions. Default: positions stay until their signals end.", "--exit")
    ] = False,
    as_json: JsonObject = False,
) -> None:
    """Stop the new orders of one bot or all bots.

    Within two seconds, trading bots enter no new position, and message bots send no order to people.

    Exits, retractions and other messages continue.
    """
    from newsproof.app.data_access import log_to_read
    from newsproof.app.processes.bots import bot_of
    from newsproof.app.processes.bots import halt as append_halt

    messages = name is not None and bot_of(invocation.settings(), name).kind == "notify"
    async with log_to_read(invocation) as log:
        record = await append_halt(log.address, log.topics, name, exit=exit_positions, by=getpass.getuser())
    closing = "and closes its positions" if exit_positions else "and keeps its positions until their signals end"
    resumed = f"newsproof bots resume {name or ''}".strip()
    does = f"makes no new entries {closing}"
    if messages:
        does = "sends no new orders. Retractions and its other messages continue"
    show(record, f"{name or 'Every bot'} {does}. To end the halt: {resumed}", as_json=as_json)


@command(bots, late_logs=True)
async def resume(invocation: Invocation, name: NameOrAll = None, as_json: JsonObject = False) -> None:
    """End the halt of one bot, or all halts."""
    from newsproof.app.data_access import log_to_read
    from newsproof.app.processes.bots import bot_of
    from newsproof.app.processes.bots import resume as append_resume
    from newsproof.app.processes.bots_view import read_book

    if name is not None:
        bot_of(invocation.settings(), name)
    async with log_to_read(invocation) as log:
        record = await append_resume(log.address, log.topics, name, by=getpass.getuser())
        book = await read_book(log.address, log.topics, name)
    text = f"{name or 'Every bot'} is no longer halted."
    if name is not None and book.halt_of(name) is not None:
        text = f"The halt of {name} has ended, but all bots are still halted: end that with `newsproof bots resume`"
    show(record, text, as_json=as_json)


def _say(planned: Planned, settled: Settled) -> None:
    from schemas.printable import printable_line

    what = f"{planned.intent} {planned.side or ''}".strip()
    why = f": {settled.reason}" if settled.reason and settled.outcome != "delivered" else ""
    because = {"enter": "", "exit": f" ({planned.reason})", "notify": f" ({planned.reason}, {planned.asset})"}[
        planned.intent
    ]
    say_result(printable_line(f"{settled.outcome:9} {what:12} {planned.instrument}{because}{why}"))


def _json_of(planned: Planned, settled: Settled) -> None:
    json_line({"planned": planned, "settled": settled})
