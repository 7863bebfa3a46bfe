"""Sheets: rows, columns and units of a table, with one renderer each for terminal, Markdown, HTML and JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from html import escape as escaped_html
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from newsproof.app.terminal import as_started
from schemas.printable import printable, printable_json

PIPE_COLUMNS = 100
"""Width of a table in a file or a pipe. ``COLUMNS`` overrides it."""
UNWRAPPED = 100_000
"""The same where each row is one line, for ``grep`` and ``cut``: of ``--wide``, of figures, of the user's own columns."""
_UNBROKEN = 32
"""Longest word that a narrow column keeps whole, such as a date or a heading; less where there are many columns."""
NUMBERS = (int, float, Decimal)


class Unit(NamedTuple):
    """Formatter of a column's values. ``right``: the cells are figures, and right-aligned."""

    write: Callable[[Any], str]
    right: bool = True


Of = str | Callable[[Any], Any]
"""A cell of an item: the name of its field or key, or a function of the item."""
Columns = Mapping[str, "Of | tuple[Of, str | Unit]"]
"""Heading → cell, or (cell, unit). A unit is a format such as ``.1%``, which shows None as “–”, or a :class:`Unit`."""


class Sheet(NamedTuple):
    """A table. ``right``: the right-aligned columns. ``items``: what the rows were made of, which JSON shows."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    right: Sequence[str] = ()
    items: Sequence[Any] = ()

    @classmethod
    def of(cls, items: Iterable[Any], columns: Columns, *, title: str = "") -> Sheet:
        """Return a sheet with a row for each item. Columns of figures, with a unit or not, are right-aligned."""
        rows, cells, right = list(items), [], []
        for heading, how in columns.items():
            of, unit = how if isinstance(how, tuple) else (how, "")
            values = [_value(item, of) for item in rows]
            if isinstance(unit, Unit):
                cells.append([unit.write(value) for value in values])
                is_figure = unit.right
            else:
                is_figure = bool(unit) or are_numbers(values)
                cells.append([format(v, unit) if unit and v is not None else v for v in values])
            right += [heading] * is_figure
        return cls(tuple(columns), list(zip(*cells, strict=True)), title, right, rows)

    def with_column(self, heading: str, cells: Iterable[Any]) -> Sheet:
        """Return the sheet with one more column at its end."""
        rows = [(*row, cell) for row, cell in zip(self.rows, cells, strict=True)]
        return self._replace(columns=(*self.columns, heading), rows=rows)

    def print(self, *, piped: int = PIPE_COLUMNS) -> None:
        """Print the sheet on standard output. ``piped``: as for :func:`console`."""
        from rich.table import Table
        from rich.text import Text

        out = console(piped)
        cells = [[printable(_text(value)) for value in row] for row in self.rows]
        made = Table(title=self.title or None, title_justify="left", title_style="bold", header_style="bold")
        widths = _widths([self.columns, *cells], out.width - 3 * len(self.columns) - 1)
        for column, width in zip(self.columns, widths, strict=True):
            justify: Any = "right" if column in self.right else "left"
            made.add_column(column, justify=justify, overflow="fold", width=width)
        for row in cells:
            made.add_row(*map(Text, row))
        out.print(made)

    def show(self, *, as_json: bool, piped: int = PIPE_COLUMNS) -> None:
        """Print the items as JSON, one a line, or the sheet."""
        json_lines(self.items) if as_json else self.print(piped=piped)

    def markdown(self, escape: Callable[[Any], str] = str) -> str:
        """Return a GitHub-flavoured table; ``escape`` makes the text of a cell or heading."""
        lines = ["| " + " | ".join(map(escape, cells)) + " |" for cells in (self.columns, *self.rows)]
        line = "|" + "".join("---:|" if column in self.right else "---|" for column in self.columns)
        return "\n".join([lines[0], line, *lines[1:]])

    def html(self, *, caption: bool = False, marks: Sequence[str] = ()) -> str:
        """Return an HTML table that scrolls on a narrow screen. ``marks``: a class for the last cell of each row."""

        def row(cells: Iterable[Any], last: str = "", tag: str = "td") -> str:
            kinds = ["n" if name in self.right else "" for name in self.columns]
            kinds[-1] = kinds[-1] or last
            classes = [f' class="{kind}"' if kind else "" for kind in kinds]
            texts = [escaped_html(_text(cell)) for cell in cells]
            made = (f"<{tag}{kind}>{text}</{tag[:2]}>" for kind, text in zip(classes, texts, strict=True))
            return f"<tr>{''.join(made)}</tr>"

        above = f"<caption>{escaped_html(self.title)}</caption>" if caption else ""
        body = "".join(map(row, self.rows, marks or [""] * len(self.rows)))
        head = row(self.columns, tag='th scope="col"')
        return f'<div class="table" tabindex="0"><table>{above}<thead>{head}</thead><tbody>{body}</tbody></table></div>'


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    title: str = "",
    right: Sequence[str] = (),
    piped: int = PIPE_COLUMNS,
) -> None:
    """Print a sheet of these rows on standard output; columns named in ``right`` are right-aligned."""
    Sheet(columns, list(rows), title, right).print(piped=piped)


figures_table = partial(table, piped=UNWRAPPED)
"""Print a table of figures like :func:`table`, but in a file or a pipe with each row on one line."""


def document(title: str, style: str, body: str) -> str:
    """Return a self-contained HTML page of this body: its policy forbids scripts, and all that is loaded from elsewhere."""
    import base64
    import hashlib

    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="referrer" content="no-referrer">'
        f"<title>{escaped_html(title)}</title><style>{style}</style></head><body><main>{body}</main></body></html>\n"
    )


def write_page(file: Path, page: Callable[[str], str]) -> None:
    """Write an HTML page and say so. ``page``: from the present time as text.

    Raises:
        ConfigError: the file cannot be written.
    """
    from newsproof.app.servers import say_on_stderr
    from schemas.errors import ConfigError

    try:
        file.write_text(page(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"), "utf-8")
    except OSError as exc:
        raise ConfigError(f"{file} cannot be written: {exc}") from exc
    say_on_stderr(f"Wrote {file}: open it in a browser.")


def console(piped: int = PIPE_COLUMNS) -> Any:
    """Return rich's console. ``piped``: its width in a file or a pipe, unless ``COLUMNS`` is set."""
    from newsproof.app.console import Console

    return Console(width=None if sys.stdout.isatty() or os.environ.get("COLUMNS") else piped)


def say_result(text: str = "") -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def advise(text: str) -> None:
    """Print one of our texts, with its commands as the user types them. Not for texts of others."""
    say_result(as_started(text))


def json_line(value: Any) -> None:
    """Print one JSON document on one line of standard output; control characters, C1 and bidi are escaped."""
    import msgspec

    say_result(printable_json(msgspec.json.encode(value, enc_hook=str).decode()))


def json_lines(values: Iterable[Any]) -> None:
    """Print each value as one JSON document on one line."""
    for value in values:
        json_line(value)


def show(value: Any, text: str, *, as_json: bool) -> None:
    """Print a value as one JSON document, or a text about it."""
    json_line(value) if as_json else say_result(text)


def money(usd: Decimal | float | None, digits: int = 5) -> str:
    """Return an amount in USD; ``unknown`` for None."""
    return "unknown" if usd is None else f"{usd:,.{digits}f}"


def moment(at: Any, to: str = "minute") -> str:
    """Return the cell of a time: its day, or to the ``minute`` or ``second``; empty for None."""
    form = {"day": "%Y-%m-%d", "minute": "%Y-%m-%d %H:%M", "second": "%Y-%m-%d %H:%M:%S"}[to]
    return "" if at is None else f"{at:{form}}"


MINUTE = Unit(moment, right=False)
SECOND = Unit(partial(moment, to="second"), right=False)


def with_remedy(problem: str, remedy: str) -> str:
    """Return the cell of a problem and what to do about it."""
    return f"{problem}: {remedy}" if remedy else problem


def are_numbers(values: Sequence[Any]) -> bool:
    """Return whether all of these are numbers or None, and some are numbers."""
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(value, NUMBERS) and not isinstance(value, bool) for value in known)


def _value(item: Any, of: Of) -> Any:
    if callable(of):
        return of(item)
    return item[of] if isinstance(item, Mapping) else getattr(item, of)


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        # A call costs far less than a cent, so two digits would show zero.
        return f"{value:.3g}" if 0 < abs(value) < 0.1 else f"{value:,.2f}"
    if isinstance(value, Decimal):
        return f"{value.normalize():f}" if value else "0"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _widths(rows: Sequence[Sequence[str]], room: int) -> Sequence[int | None]:
    """Return the widths of columns that together fit: the widest give way first, and no short word breaks.

    None for each where they fit anyway, or where there are more columns than room.
    """
    from rich.cells import cell_len

    columns = list(zip_longest(*rows, fillvalue=""))
    widths = [min(room, max(map(cell_len, "\n".join(column).split("\n")))) for column in columns]
    words = [max(map(cell_len, " ".join(column).split()), default=1) for column in columns]
    unbroken = next((n for n in range(_UNBROKEN, 0, -1) if sum(min(n, word) for word in words) <= room), 0)
    if sum(widths) <= room or not unbroken:
        return [None] * len(columns)
    while sum(widths) > room:
        spare = [max(0, width - min(unbroken, word)) and width for width, word in zip(widths, words, strict=True)]
        widths[spare.index(max(spare))] -= 1
    return widths
