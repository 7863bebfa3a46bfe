"""docs/verdict.md shows what the command prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.compare.comparison import compare, with_texts
from evaluation.compare.terminal import show_table
from tests.evaluation.compare_samples import example

PAGE = Path(__file__).parents[2] / "docs" / "verdict.md"


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the report of the example, without the spaces at the ends of lines."""
    a, b, returns, texts = example()
    show_table(with_texts(compare(a, b, returns, differences=1), texts))
    return "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())


def test_the_report_in_the_docs_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys) in PAGE.read_text("utf-8")
