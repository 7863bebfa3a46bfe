"""The period of a report."""

from __future__ import annotations

from datetime import date, timedelta

import msgspec

_BEGIN, _END = date(1970, 1, 1), date(2200, 1, 1)


class Period(msgspec.Struct, frozen=True):
    """UTC days of a report, both included; None: no bound. Signals count on the day of their emission, outcomes on their
    signal's day, and calls on their request's."""

    first: date | None = None
    last: date | None = None

    @property
    def bounds(self) -> dict[str, str]:
        """The parameters ``since`` (included) and ``until`` (not) of a statement."""
        until = _END if self.last is None else self.last + timedelta(days=1)
        return {"since": f"{self.first or _BEGIN} 00:00:00", "until": f"{until} 00:00:00"}


WHOLE = Period()


def in_period(column: str) -> str:
    """Return the condition that a time is within the period given by the parameters of :attr:`Period.bounds`."""
    return f"{column} >= {{since:DateTime64(3, 'UTC')}} AND {column} < {{until:DateTime64(3, 'UTC')}}"
