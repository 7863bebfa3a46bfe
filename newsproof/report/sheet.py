"""A table that is printed, or written as Markdown, HTML or JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any
from xml.sax.saxutils import escape as escape_markup

import msgspec

from newsproof.app.invocation import markdown_table, table


class Sheet(msgspec.Struct, frozen=True):
    """Headings and rows. ``right``: headings of right-aligned columns, such as numbers."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    right: Sequence[str] = ()

    def print(self) -> None:
        """Print the table on standard output."""
        table(self.columns, self.rows, title=self.title, right=self.right)

    def markdown(self, escape: Callable[[Any], str] = str) -> str:
        """Return the table in Markdown, without its title. ``escape`` makes the text of a cell or heading."""
        return markdown_table(self.columns, self.rows, right=self.right, escape=escape)

    def html(self, marks: Sequence[str] = ()) -> str:
        """Return the table in HTML with its title as caption. Text is escaped; cells of ``right`` have the class ``n``.

        ``marks``: for each row, the class of its last cell; "" for none.
        """
        caption = f"<caption>{escape_markup(self.title)}</caption>" if self.title else ""
        head = "".join(f'<th scope="col"{self._class(name)}>{escape_markup(name)}</th>' for name in self.columns)
        body = "".join(self._row(cells, mark) for cells, mark in zip_longest(self.rows, marks, fillvalue=""))
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def dicts(self) -> list[dict[str, Any]]:
        """Return the rows by heading, for JSON."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def _row(self, cells: Sequence[Any], mark: str) -> str:
        marks = [""] * (len(cells) - 1) + [mark]
        named = zip(self.columns, cells, marks, strict=True)
        return f"<tr>{''.join(f'<td{self._class(n, m)}>{escape_markup(str(c))}</td>' for n, c, m in named)}</tr>"

    def _class(self, name: str, mark: str = "") -> str:
        kind = "n" if name in self.right else mark
        return f' class="{kind}"' if kind else ""
