"""Options and groups that several commands share, and commands that are coroutines."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Literal, TypeVar

import typer
from typer.core import TyperGroup

from newsproof.app import exits
from newsproof.app.invocation import of, run

Work = TypeVar("Work", bound=Callable[..., Coroutine[Any, Any, Any]])


def option(text: str, *names: str, **how: Any) -> Any:
    """Return an option with this help text. ``names``: by default, the parameter's."""
    return typer.Option(*names, help=text, **how)


def argument(text: str, **how: Any) -> Any:
    """Return an argument with this help text."""
    return typer.Argument(help=text, **how)


def json_flag(text: str) -> Any:
    """Return the option ``--json`` with this help text."""
    return option(text, "--json")


JsonLines = Annotated[bool, json_flag("Print JSON, one object per line.")]
JsonObject = Annotated[bool, json_flag("Print one JSON object.")]
JsonLastLine = Annotated[bool, json_flag("Print one JSON object on the last line of standard output.")]
JsonReport = Annotated[bool, json_flag("Print the report as one line of JSON.")]
Wide = Annotated[bool, option("Show all columns, in a table of any width.", "--wide")]
Latency = Annotated[float, option("Seconds from a signal or its retraction to the order.", min=0)]
Seed = Annotated[int, option("Random seed.", min=0)]
Lang = Annotated[
    Literal["zh", "en"] | None,
    option("Display language, also of summaries that exist in it. Default: from LC_ALL or LANG."),
]
PagePort = Annotated[
    int | None, option("Port of the page. 0: a free port. Default: WEB_PORT.", min=0, max=65535, show_default=False)
]


def commands() -> typer.Typer:
    """Return an empty list of commands, to be filled by one module."""
    return typer.Typer(add_completion=False, rich_markup_mode=None)


def command(app: typer.Typer, name: str | None = None, *, service: bool = False, **how: Any) -> Callable[[Work], Work]:
    """Return a decorator that makes a coroutine function a command of ``app``. The function itself stays as it is.

    Its first parameter is the invocation, the others are the options. It returns the exit status; None for success.
    The help is its docstring, up to ``Raises``. ``how``: as for :func:`run`. ``service``: it runs for long.
    """

    def register(work: Work) -> Work:
        def called(ctx: typer.Context, **options: Any) -> None:
            settings = of(ctx).settings() if service else None
            raise typer.Exit(run(work(of(ctx), **options), service=settings, **how) or exits.OK)

        _, *options = inspect.signature(work, eval_str=True).parameters.values()
        context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        parameters = [context, *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in options)]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        called.__name__, called.__doc__ = work.__name__, (inspect.getdoc(work) or "").partition("\n\nRaises:")[0]
        app.command(name)(called)
        return work

    return register


class ListGroup(TyperGroup):
    """A group with a default command: `dlq --json` is short for `dlq list --json`, and `dlq` for `dlq list`."""

    default, needs_arguments, takes_words = "list", False, False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the default command before options, and before words if it takes some."""
        first = args[0] if args else None
        is_other = first is not None and (first.startswith("-") or (self.takes_words and first not in self.commands))
        if (first is None and not self.needs_arguments) or (is_other and first not in ("-h", "--help")):
            args = [self.default, *args]
        return super().parse_args(ctx, args)


class ShowGroup(ListGroup):
    """A group that shows by default: ``case ID`` is short for ``case show ID``. No case has a command's name."""

    default, needs_arguments, takes_words = "show", True, True


class TablesGroup(ListGroup):
    """A group that exports tables by default: ``export --parquet DIR`` is short for ``export tables --parquet DIR``."""

    default, needs_arguments = "tables", True
