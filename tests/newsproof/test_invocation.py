"""What commands print in their tables."""

from __future__ import annotations

from decimal import Decimal

import pytest

from newsproof.invocation import table


def test_money_is_written_out_and_what_is_unknown_is_no_zero(capsys: pytest.CaptureFixture[str]) -> None:
    table(["name", "cost"], [("free", Decimal("0E-9")), ("paid", Decimal("0.000412000")), ("unknown", None)])
    rows = [line.split("│")[1:3] for line in capsys.readouterr().out.splitlines() if "│" in line]
    assert [[cell.strip() for cell in row] for row in rows] == [["free", "0"], ["paid", "0.000412"], ["unknown", "–"]]
