"""One table in every format."""

from __future__ import annotations

import pytest

from newsproof.report.sheet import Sheet

SHEET = Sheet(("run", "cases"), [("<a>", 1), ("b", 20)], "Runs", ("cases",))


def test_a_sheet_is_rendered_as_text_markdown_html_and_rows(capsys: pytest.CaptureFixture[str]) -> None:
    SHEET.print()
    assert [line for line in capsys.readouterr().out.splitlines() if "20" in line] == ["│ b   │    20 │"]
    assert SHEET.markdown().splitlines() == ["| run | cases |", "|---|---:|", "| <a> | 1 |", "| b | 20 |"]
    assert SHEET.html(["", "worse"]) == (
        '<table><caption>Runs</caption><thead><tr><th scope="col">run</th><th scope="col" class="n">cases</th></tr></thead>'
        '<tbody><tr><td>&lt;a&gt;</td><td class="n">1</td></tr><tr><td>b</td><td class="n">20</td></tr></tbody></table>'
    )
    assert SHEET.dicts() == [{"run": "<a>", "cases": 1}, {"run": "b", "cases": 20}]


def test_a_mark_is_the_class_of_a_rows_last_cell() -> None:
    assert '<td class="worse">1</td>' in Sheet(("run", "result"), [("a", 1)]).html(["worse"])
