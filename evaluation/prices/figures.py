"""The usual figures of the account's daily returns, by empyrical: the library of the optional extra ``figures``.

The ledger's own figures need no library (:mod:`evaluation.prices.ledger`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np

from evaluation.prices.ledger import DAYS_A_YEAR, DayEquity
from schemas.errors import ConfigError

_OF_A_DAY = frozenset({"max_drawdown", "value_at_risk", "conditional_value_at_risk", "tail_ratio"})


class SeriesFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of the returns of each UTC day, a year of 365 days, without a riskless rate. None: the library gives none.

    Named as the library's functions. Shares, losses negative: ``max_drawdown`` is that of the account at the ends of days,
    ``value_at_risk`` the return that one day in twenty stays below, ``conditional_value_at_risk`` (CVaR) the mean return of those
    days. Ratios: Sortino by the deviation of losses alone, Calmar the yearly return by the drawdown, omega gains by losses,
    tail the best twentieth by the worst.
    """

    days: int
    annual_return: float | None
    annual_volatility: float | None
    sharpe_ratio: float | None
    sortino_ratio: float | None
    calmar_ratio: float | None
    omega_ratio: float | None
    max_drawdown: float | None
    value_at_risk: float | None
    conditional_value_at_risk: float | None
    tail_ratio: float | None


def require_library() -> Any:
    """Return empyrical.

    Raises:
        ConfigError: it is not installed; the text says how to.
    """
    try:
        import empyrical
    except ImportError as exc:
        raise ConfigError(
            "--figures needs the extra `figures`, which is not installed: pip install 'newsproof[figures]', or in a checkout "
            ".venv/bin/python -m pip install empyrical-reloaded"
        ) from exc
    return empyrical


def series_figures(equity: Sequence[DayEquity], capital: Decimal) -> SeriesFigures:
    """Return the figures of an account that held ``capital`` before the first day; all None once it was empty.

    Raises:
        ConfigError: as :func:`require_library`.
    """
    library = require_library()
    held = np.array([float(capital), *(float(day.equity) for day in equity)])
    returns = np.diff(held) / held[:-1] if (held > 0.0).all() else np.empty(0)
    names = SeriesFigures.__struct_fields__[1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        figures = {
            name: getattr(library, name)(returns, **({} if name in _OF_A_DAY else {"annualization": DAYS_A_YEAR}))
            if returns.size
            else math.nan
            for name in names
        }
    known = {name: float(value) if math.isfinite(value) else None for name, value in figures.items()}
    return SeriesFigures(days=len(equity), **known)
