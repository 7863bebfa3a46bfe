"""What every command shares: the global options, reading the settings, running a coroutine, and how results are printed."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from newsproof.app import exits
from newsproof.app.terminal import guard_output
from schemas.printable import printable, printable_json

if TYPE_CHECKING:
    from infra.settings import Settings

T = TypeVar("T")

PIPE_WIDTH = 160
"""Columns of a table that goes to a file or a pipe, where there is no terminal to ask."""


class Invocation:
    """The global options of this call."""

    debug = False
    data_dir: Path | None = None

    @property
    def data_dir_given(self) -> bool:
        """Whether the user named a data directory, by option, environment or ``.env`` file."""
        return "newsproof_data_dir" in self.settings().model_fields_set

    def settings(self, **overrides: object) -> Settings:
        """Read the settings; the command line wins over the environment."""
        from infra.settings import load_settings

        if self.data_dir is not None:
            overrides["newsproof_data_dir"] = self.data_dir
        return load_settings(**overrides)


def of(ctx: typer.Context) -> Invocation:
    """Return the global options of this call."""
    return ctx.ensure_object(Invocation)


def run_command_line(app: typer.Typer, name: str) -> None:
    """Run a command line that is called ``name``, and exit with a status of ``newsproof.app.exits``."""
    guard_output()
    try:
        app(prog_name=name)
    except KeyboardInterrupt:
        sys.exit(exits.INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()  # Whoever read our output went away, as `| head` does.
        sys.exit(exits.OK)
    except Exception as exc:
        from infra.redaction import redacted

        if Invocation.debug:
            print(redacted(traceback.format_exc()), file=sys.stderr)
        print(redacted(f"newsproof: {exits.text_of(exc)}"), file=sys.stderr, flush=True)
        sys.exit(exits.status_of(exc))


def run(work: Coroutine[Any, Any, T], *, service: Settings | None = None) -> T:
    """Run a command's coroutine; on SIGINT, SIGTERM or SIGHUP cancel it, so that it cleans up, and exit with 130.

    ``service``: the settings of a long-running process, which watches for the signals itself, and whose output are logs.
    """
    from infra.owner_only import UMASK, make_owner_only
    from newsproof.app.logging_setup import configure_logs

    if service is not None:
        os.umask(UMASK)
        if service.newsproof_data_dir.exists():
            make_owner_only(service.newsproof_data_dir)
        configure_logs(service.log_level)
    else:
        # A command reports by itself that a server is away; the client library's own words would only repeat it.
        configure_logs("WARNING", libraries="CRITICAL")
    with asyncio.Runner(loop_factory=_fast_loop if service else None) as runner:
        try:
            return runner.run(_ends_for_sure(work) if service else _cancelled_by_signals(work))
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise SystemExit(exits.INTERRUPTED) from None


END_WITHIN_S = 15.0
"""A service whose work is over is gone by then, also when a library's leftover task does not let itself be cancelled."""


async def _ends_for_sure(work: Coroutine[Any, Any, T]) -> T:
    why = "its work ended"
    try:
        return await work
    except Exception as exc:
        why = str(exc)
        raise
    finally:

        def leave() -> None:
            print(f"newsproof: {why}; leftover tasks did not end, leaving without them", file=sys.stderr, flush=True)
            os._exit(exits.FINDING)

        last_resort = threading.Timer(END_WITHIN_S, leave)
        last_resort.daemon = True
        last_resort.start()


def _fast_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _cancelled_by_signals(work: Coroutine[Any, Any, T]) -> T:
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        if task.cancelling():
            os._exit(exits.INTERRUPTED)  # Asked twice: at once. Our children end with us.
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, interrupt)
    return await task


def command_name() -> str:
    """Return what the user types for this command line: its script where it is installed, else the checkout's ``run``."""
    script = Path(__file__).resolve().parents[2] / "run"
    if shutil.which("newsproof") or not script.exists():
        return "newsproof"
    return "./run" if Path.cwd() == script.parent else str(script)


# Results


def json_line(value: Any) -> None:
    """Print one JSON document on one line of standard output; control characters are escaped, C1 and bidi too."""
    import msgspec

    sys.stdout.write(printable_json(msgspec.json.encode(value, enc_hook=str).decode()) + "\n")
    sys.stdout.flush()


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "", right: Sequence[str] = ()) -> None:
    """Print a table on standard output; columns named in ``right`` are aligned to the right."""
    from rich.table import Table
    from rich.text import Text

    made = Table(title=title or None, title_justify="left", title_style="bold", header_style="bold")
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text(printable(_cell(value))) for value in row))
    console().print(made)


def markdown_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    right: Sequence[str] = (),
    escape: Callable[[Any], str] = str,
) -> str:
    """Return a GitHub-flavoured table; ``escape`` makes the text of a cell or heading."""
    lines = ["| " + " | ".join(map(escape, cells)) + " |" for cells in (columns, *rows)]
    return "\n".join([lines[0], "|" + "".join("---:|" if one in right else "---|" for one in columns), *lines[1:]])


def say_result(text: str = "") -> None:
    """Print text on standard output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def console() -> Any:
    """Return a console on standard output."""
    from newsproof.app.console import Console

    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        # What a call costs is far below a cent: two digits would make it nothing.
        return f"{value:.3g}" if 0 < abs(value) < 0.1 else f"{value:,.2f}"
    if isinstance(value, Decimal):
        return f"{value.normalize():f}" if value else "0"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
