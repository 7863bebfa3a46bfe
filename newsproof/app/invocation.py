"""What all commands share: the global options, the settings, running a coroutine, printing results."""

from __future__ import annotations

import asyncio
import os
import shlex
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
import typer.core

from newsproof.app import exits
from newsproof.app.terminal import guard_output
from schemas.printable import printable, printable_json

if TYPE_CHECKING:
    from infra.settings import Settings

T = TypeVar("T")

PIPE_WIDTH = 160
"""Columns of a table that is written to a file or a pipe, which has no terminal width."""


class Invocation:
    """The global options of this call."""

    debug = False
    current: Invocation | None = None
    """That of the command line of this process; None in a program that has none."""
    data_dir: Path | None = None
    env_file: Path | None = None
    _misspelt_told = False

    @property
    def data_dir_given(self) -> bool:
        """Whether the user named a data directory, by option, environment or ``.env`` file."""
        return "newsproof_data_dir" in self.settings().model_fields_set

    def settings(self, **overrides: object) -> Settings:
        """Read the settings; the command line takes precedence over the environment.

        Raises:
            ConfigError: as for ``load_settings``, or ``--env-file`` names no file.
        """
        from infra.settings import load_settings
        from schemas.errors import ConfigError

        if self.data_dir is not None:
            overrides["newsproof_data_dir"] = self.data_dir
        if self.env_file is not None:
            if not self.env_file.is_file():
                raise ConfigError(
                    f"--env-file {self.env_file}: there is no such file; correct the path, or leave it out"
                )
            overrides["_env_file"] = self.env_file
        settings = load_settings(**overrides)
        self._tell_misspelt(settings)
        return settings

    def _tell_misspelt(self, settings: Settings) -> None:
        from infra.settings.origin import misspelt_in

        if self._misspelt_told:
            return
        self._misspelt_told = True
        file = self.env_file or Path(".env")
        for name, nearest in misspelt_in(file, type(settings).model_fields).items():
            print(
                f"newsproof: {name.upper()} in {file} is no setting and is not read; the nearest is {nearest.upper()}",
                file=sys.stderr,
                flush=True,
            )


class OptionsAnywhere(typer.core.TyperGroup):
    """A command line whose own options, such as ``--data-dir``, may also stand after the command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the group's options before the command, up to ``--``, and parse."""
        takes_value = {
            name: not one.is_flag
            for one in self.params
            if isinstance(one, typer.core.TyperOption) and not one.is_eager
            for name in one.opts
        }
        ours: list[str] = []
        rest: list[str] = []
        words = iter(args)
        for word in words:
            if word == "--":
                rest += [word, *words]
            elif word.partition("=")[0] not in takes_value:
                rest.append(word)
            else:
                ours.append(word)
                if takes_value[word.partition("=")[0]] and "=" not in word:
                    ours += [value for value in (next(words, None),) if value is not None]
        return super().parse_args(ctx, [*ours, *rest])

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Ctrl-C before it has a loop that handles it is told; typer would exit without a word."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            print("newsproof: interrupted", file=sys.stderr, flush=True)
            raise SystemExit(exits.INTERRUPTED) from None


def of(ctx: typer.Context) -> Invocation:
    return ctx.ensure_object(Invocation)


def run_command_line(app: typer.Typer, name: str) -> None:
    """Run a command line named ``name``; exit with a status of ``newsproof.app.exits``."""
    guard_output()
    try:
        app(prog_name=name)
    except KeyboardInterrupt:
        print("newsproof: interrupted", file=sys.stderr, flush=True)
        sys.exit(exits.INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()  # The reader of our output is gone, as with `| head`.
        sys.exit(exits.OK)
    except Exception as exc:
        from infra.redaction import redacted

        if Invocation.debug:
            print(redacted(traceback.format_exc()), file=sys.stderr)
        print(redacted(f"newsproof: {exits.text_of(exc)}"), file=sys.stderr, flush=True)
        sys.exit(exits.status_of(exc))


def run(work: Coroutine[Any, Any, T], *, service: Settings | None = None, ending: str = "") -> T:
    """Run a command's coroutine; on SIGINT, SIGTERM or SIGHUP cancel it, so that it cleans up, and exit with 130.

    A second signal ends it at once. ``ending`` is printed at the first: for a command whose end takes a while.
    ``service``: the settings of a long-running process, which handles the signals itself and whose output is logs.
    """
    from infra.owner_only import UMASK, make_owner_only
    from newsproof.app.logging_setup import configure_logs

    if service is not None:
        os.umask(UMASK)
        if service.newsproof_data_dir.exists():
            make_owner_only(service.newsproof_data_dir)
        configure_logs(service.log_level)
    else:
        # Commands report an unavailable server themselves; the client library's messages would only repeat it.
        configure_logs("WARNING", libraries="CRITICAL")
    with asyncio.Runner(loop_factory=_fast_loop if service else None) as runner:
        try:
            return runner.run(_ends_for_sure(work) if service else _cancelled_by_signals(work, ending))
        except asyncio.CancelledError:
            raise SystemExit(exits.INTERRUPTED) from None


END_WITHIN_S = 15.0
"""Timeout of a service's shutdown, also if a library's leftover task ignores its cancellation."""


async def _ends_for_sure(work: Coroutine[Any, Any, T]) -> T:
    why = "its work ended"
    try:
        return await work
    except Exception as exc:
        why = str(exc)
        if exits.status_of(exc) == exits.INTERNAL:
            import structlog

            # Nobody can run a service again with --debug and see the same.
            structlog.get_logger(__name__).exception("a fault of Newsproof ends this process: report it")
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


async def _cancelled_by_signals(work: Coroutine[Any, Any, T], ending: str) -> T:
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        if task.cancelling():
            if ending:
                print("Ended at once.", file=sys.stderr, flush=True)
            os._exit(exits.INTERRUPTED)  # Second signal: exit at once. Our children end with us.
        if ending:
            print(ending, file=sys.stderr, flush=True)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, interrupt)
    return await task


def agreed(what: str, *, yes: bool) -> bool:
    """Say on standard error what is about to happen, and return whether the user wants it. ``yes``: said so beforehand.

    Raises:
        ConfigError: there is no terminal to ask at.
    """
    if yes:
        print(f"{what}.", file=sys.stderr, flush=True)
        return True
    if not sys.stdin.isatty():
        from schemas.errors import ConfigError

        raise ConfigError(f"{what}, and there is no terminal to ask at: add --yes")
    return typer.confirm(f"{what}: go on?", err=True)


def command_name(data_dir: Path | None = None) -> str:
    """Return the command as the user types it: its script if installed, otherwise the checkout's ``run``.

    With the data directory and the file of settings that this call was given, so that what is suggested finds the same
    log; ``data_dir`` is another one to name.
    """
    script = Path(__file__).resolve().parents[2] / "run"
    if shutil.which("newsproof") or not script.exists():
        words = ["newsproof"]
    else:
        words = ["./run" if Path.cwd() == script.parent else str(script)]
    given = Invocation.current
    directory = data_dir or (given and given.data_dir) or os.environ.get("NEWSPROOF_DATA_DIR")
    if directory:
        words += ["--data-dir", str(directory)]
    if given is not None and given.env_file is not None:
        words += ["--env-file", str(given.env_file)]
    return shlex.join(words)


# Results


def json_line(value: Any) -> None:
    """Print one JSON document on one line of standard output; control characters, C1 and bidi are escaped."""
    import msgspec

    sys.stdout.write(printable_json(msgspec.json.encode(value, enc_hook=str).decode()) + "\n")
    sys.stdout.flush()


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "", right: Sequence[str] = ()) -> None:
    """Print a table on standard output; columns named in ``right`` are right-aligned."""
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
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def console() -> Any:
    from newsproof.app.console import Console

    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        # A call costs far below a cent, so two digits would show zero.
        return f"{value:.3g}" if 0 < abs(value) < 0.1 else f"{value:,.2f}"
    if isinstance(value, Decimal):
        return f"{value.normalize():f}" if value else "0"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
