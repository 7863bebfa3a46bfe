"""Figures of a profit series by the library: against hand-worked ones, and against the ledger's own."""

from __future__ import annotations

import itertools
import math
import statistics
import sys
from datetime import date, timedelta
from decimal import Decimal

import pytest

from evaluation.prices.figures import SeriesFigures, series_figures
from evaluation.prices.ledger import DayEquity, _sharpe
from schemas.errors import ConfigError

CAPITAL = Decimal(10_000)
HELD = (10_100, 10_000, 10_300, 10_300, 9_991, 10_090.91, 10_191.82)


def account(*held: float) -> list[DayEquity]:
    return [DayEquity(day=date(2025, 1, 1) + timedelta(days=n), equity=Decimal(str(one))) for n, one in enumerate(held)]


def test_the_figures_are_those_worked_out_by_hand() -> None:
    found = series_figures(account(*HELD), CAPITAL)
    held = (10_000, *HELD)
    returns = [after / before - 1 for before, after in itertools.pairwise(held)]
    mean, losses = statistics.mean(returns), [min(one, 0.0) for one in returns]
    downside = math.sqrt(statistics.mean(one * one for one in losses))
    assert found.days == 7
    assert found.sharpe_ratio == pytest.approx(mean / statistics.stdev(returns) * math.sqrt(365))
    assert found.sortino_ratio == pytest.approx(mean / downside * math.sqrt(365))
    assert found.annual_volatility == pytest.approx(statistics.stdev(returns) * math.sqrt(365))
    assert found.annual_return == pytest.approx((HELD[-1] / 10_000) ** (365 / 7) - 1)
    assert found.max_drawdown == pytest.approx(9_991 / 10_300 - 1)
    assert found.calmar_ratio == pytest.approx((found.annual_return or 0.0) / -(found.max_drawdown or 1.0))
    assert found.omega_ratio == pytest.approx(sum(one for one in returns if one > 0) / -sum(losses))
    assert found.conditional_value_at_risk == pytest.approx(min(returns))


def test_the_library_and_the_ledger_have_one_sharpe_ratio() -> None:
    ours, _, days = _sharpe([one.equity for one in account(*HELD)], CAPITAL)
    found = series_figures(account(*HELD), CAPITAL)
    assert (found.sharpe_ratio, found.days) == (pytest.approx(ours), days)


@pytest.mark.parametrize("held", [(), (10_000, 10_000, 10_000), (12_000, -1, 3_000)])
def test_an_account_that_says_nothing_has_no_ratios(held: tuple[float, ...]) -> None:
    found = series_figures(account(*held), CAPITAL)
    assert (found.sharpe_ratio, found.sortino_ratio, found.calmar_ratio, found.omega_ratio) == (None, None, None, None)
    assert isinstance(found, SeriesFigures)


def test_without_the_extra_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "empyrical", None)
    with pytest.raises(ConfigError, match=r"pip install 'newsproof\[figures\]'"):
        series_figures(account(*HELD), CAPITAL)
