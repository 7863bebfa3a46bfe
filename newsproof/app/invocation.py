"""Shared by all commands: global options, settings, running a coroutine, values of options."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer
import typer.core

from newsproof.app import exits
from newsproof.app.terminal import as_started, guard_output, program_name

if TYPE_CHECKING:
    from infra.client_settings import ClientSettings
    from infra.settings import Settings

T = TypeVar("T")

READS_ONLY = "this command only reads data, so nothing changed; run it again"
"""Text of :func:`run` for an interrupted command that only reads."""
UNKEPT = "nothing was kept, including paid responses; run it again"
"""The same for a command that calls models and keeps nothing."""


class Invocation:
    """The global options of this call."""

    debug = False
    data_dir: Path | None = None
    env_file: Path | None = None
    _misspelt_told = False

    @property
    def data_dir_given(self) -> bool:
        """True if the user named a data directory, by option, environment or ``.env`` file."""
        from infra.origin import given_by_environment, written_in

        given = given_by_environment() | written_in(self._settings_file).keys()
        return self.data_dir is not None or "newsproof_data_dir" in given

    def settings(self, **overrides: object) -> Settings:
        """Read the settings; the command line takes precedence over the environment.

        Raises:
            ConfigError: as for ``load_settings``, or ``--env-file`` names a missing file.
        """
        from infra.settings import load_settings

        settings = load_settings(**overrides, **self._given())
        self._tell_misspelt()
        return settings

    def client_settings(self) -> ClientSettings:
        """Read the few settings that a Kafka client needs, which is much faster than reading all.

        Warns of misspelt settings only if one resembles one of these few.

        Raises:
            ConfigError: as :meth:`settings`.
        """
        from infra.client_settings import KNOWN_TO_CLIENTS, load_client_settings
        from infra.origin import misspelt_in

        settings = load_client_settings(**self._given())
        if misspelt_in(self._settings_file, KNOWN_TO_CLIENTS):
            self._tell_misspelt()
        return settings

    def reader_settings(self) -> ClientSettings | None:
        """Read the few settings that locate the log; None if all settings have to be read.

        Raises:
            ConfigError: as :meth:`settings`.
        """
        from infra.client_settings import load_reader_settings

        if (settings := load_reader_settings(**self._given())) is not None:
            self._tell_misspelt()
        return settings

    @property
    def _settings_file(self) -> Path:
        return self.env_file or Path(".env")

    def _given(self) -> dict[str, object]:
        given: dict[str, object] = {}
        if self.data_dir is not None:
            given["newsproof_data_dir"] = self.data_dir
        if self.env_file is not None:
            if not self.env_file.is_file():
                from schemas.errors import ConfigError

                raise ConfigError(
                    f"--env-file {self.env_file}: no such file. Correct the path, or leave the option out"
                )
            given["_env_file"] = self.env_file
        return given

    def _tell_misspelt(self) -> None:
        from infra.origin import given_by_environment, misspelt_in
        from infra.setting_names import ALL, REMOVED

        if self._misspelt_told:
            return
        self._misspelt_told = True
        ignored = [(name, "the environment", REMOVED[name]) for name in REMOVED if name in given_by_environment()]
        written = misspelt_in(self._settings_file, ALL, REMOVED)
        ignored += [(name, str(self._settings_file), nearest) for name, nearest in written.items()]
        for name, place, nearest in ignored:
            print(
                f"newsproof: {name.upper()} in {place} is not a setting and is ignored; the closest match is {nearest.upper()}",
                file=sys.stderr,
                flush=True,
            )


class OptionsAnywhere(typer.core.TyperGroup):
    """A command line whose own options, such as ``--data-dir``, are also allowed after the command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the group's options before the command, up to ``--``, and parse."""
        takes_value = {
            name: not parameter.is_flag
            for parameter in self.params
            if isinstance(parameter, typer.core.TyperOption) and not parameter.is_eager
            for name in parameter.opts
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
        """Run the command. Print a message at Ctrl-C before the command handles it; typer would exit silently."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            print("newsproof: interrupted", file=sys.stderr, flush=True)
            raise SystemExit(exits.INTERRUPTED) from None


class _HelpContext(typer.Context):
    def get_help(self) -> str:
        return as_started(super().get_help(), program_name())


def of(ctx: typer.Context) -> Invocation:
    return ctx.ensure_object(Invocation)


def run_command_line(app: typer.Typer, name: str) -> None:
    """Run a command line named ``name``; exit with a status of ``newsproof.app.exits``.

    Help texts name commands as the user types them.
    """
    guard_output()
    typer.core.TyperCommand.context_class = typer.core.TyperGroup.context_class = _HelpContext
    try:
        app(prog_name=name)
    except KeyboardInterrupt:
        print("newsproof: interrupted", file=sys.stderr, flush=True)
        sys.exit(exits.INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()  # The reader of our output has closed it, as `| head` does.
        sys.exit(exits.OK)
    except Exception as exc:
        from infra.redaction import redacted

        if Invocation.debug:
            print(redacted(traceback.format_exc()), file=sys.stderr)
        print(redacted(f"newsproof: {as_started(exits.text_of(exc))}"), file=sys.stderr, flush=True)
        sys.exit(exits.status_of(exc))


def raise_at_ctrl_c() -> None:
    """Let Ctrl-C raise KeyboardInterrupt, so that the command can clean up. Before this call, it ends the process."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def run(
    work: Coroutine[Any, Any, T],
    *,
    service: Settings | None = None,
    ending: str = "",
    interrupted: str = "",
    late_logs: bool = False,
) -> T:
    """Run a command's coroutine. On SIGINT, SIGTERM or SIGHUP, cancel it, so that it cleans up, and exit with 130.

    A second signal ends it at once. ``ending``: printed at the first signal, for a command that stops slowly.
    ``service``: settings of a long-running process, which handles signals itself and writes logs.
    ``interrupted``: what is kept and how to resume, printed on standard error.
    ``late_logs``: no module that runs here imports structlog itself, so it is loaded at the first message.
    """
    from infra.owner_only import UMASK, make_owner_only
    from newsproof.app.logging_setup import configure_logs, configure_logs_late

    if service is not None:
        os.umask(UMASK)
        if service.newsproof_data_dir.exists():
            make_owner_only(service.newsproof_data_dir)
        configure_logs(service.log_level)
    elif late_logs:
        configure_logs_late()
    else:
        # Commands report an unavailable server themselves; the client library's messages would only repeat it.
        configure_logs("WARNING", libraries="CRITICAL")
    raise_at_ctrl_c()
    with asyncio.Runner(loop_factory=_fast_loop if service else None) as runner:
        try:
            return runner.run(_ends_for_sure(work) if service else _cancelled_by_signals(work, ending))
        except (asyncio.CancelledError, KeyboardInterrupt):
            if interrupted:
                print(f"Interrupted: {as_started(interrupted)}.", file=sys.stderr, flush=True)
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

            # Running a service again with --debug would not show the same error.
            structlog.get_logger(__name__).exception("a bug in Newsproof ends this process: report it")
        raise
    finally:

        def leave() -> None:
            print(f"newsproof: {why}; leftover tasks did not end; exiting without them", file=sys.stderr, flush=True)
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
                print("Stopped at once.", file=sys.stderr, flush=True)
            os._exit(exits.INTERRUPTED)  # Second signal: exit at once. Our children end with us.
        if ending:
            print(ending, file=sys.stderr, flush=True)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, interrupt)
    return await task


def agreed(what: str, *, yes: bool) -> bool:
    """Ask the user on standard error to confirm; return the answer. ``yes``: confirmed beforehand.

    Raises:
        ConfigError: there is no terminal.
    """
    if yes:
        print(f"{what}.", file=sys.stderr, flush=True)
        return True
    if not sys.stdin.isatty():
        from schemas.errors import ConfigError

        raise ConfigError(f"{what}, and no terminal is open to confirm it: add --yes")
    return typer.confirm(f"{what}. Continue?", err=True)


# Values of options

UNITS_S = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
"""Seconds per unit of a span."""
_SPAN = re.compile(r"([1-9]\d{0,5})\s*(s|m|min|h|d)")


def parse_span(text: str) -> int | None:
    """Return the seconds of a span such as 90m, 4h or 3d; None if the text is not one."""
    match = _SPAN.fullmatch(text.strip())
    return None if match is None else int(match[1]) * UNITS_S[match[2]]


def span_of(option: str, text: str, like: str = "30m, 4h or 1d") -> int:
    """Return the seconds of the span that an option names.

    Raises:
        ConfigError: the text is not a span. ``like``: examples for the reader.
    """
    if (seconds := parse_span(text)) is None:
        from schemas.errors import ConfigError

        raise ConfigError(f"{option} {text!r:.40}: write a number and s, m, h or d, such as {like}")
    return seconds


def span_name(seconds: int) -> str:
    """Return a span in the largest unit that divides it: 5m, 4h, 24h, 7d."""
    if seconds % UNITS_S["d"] == 0 and seconds > UNITS_S["d"]:
        return f"{seconds // UNITS_S['d']}d"
    return next(f"{seconds // size}{unit}" for unit, size in (("h", 3600), ("m", 60), ("s", 1)) if seconds % size == 0)


def parse_time(option: str, text: str) -> datetime:
    """Return the time (UTC) that an option names: a day or RFC 3339, UTC unless it has an offset.

    Raises:
        ConfigError: the text is not a time.
    """
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        from schemas.errors import ConfigError

        raise ConfigError(f"{option} {text!r:.40} is not a time: write 2026-01-31 or 2026-01-31T14:00:00Z") from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
