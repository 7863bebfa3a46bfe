"""Another attempt at a case that failed: a news record that says so in a header opens a case of its own.

The id of that case is made of the failed case's id alone. So however often the record is sent, by whoever, it opens one
case; and when that one fails too, its own dead letter leads to the next attempt.

A second look at an unconfirmed case is a case of its own as well, whose id follows from the first one's. It lies on the first
one's partition of the journal: whoever reads that partition has read the first case's end before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import count

from schemas.errors import ContractError
from schemas.ids import uuid5
from schemas.news import News
from schemas.topics import partition_of

RETRIES_HEADER = "np_retries"
"""Header of a ``news`` record: the id of the failed case that is to be tried again."""

_CASE_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch


def retries_of(headers: Iterable[tuple[str, bytes | None]] | None) -> str | None:
    """Return the failed case that a record asks to try again, None for ordinary news.

    Raises:
        ContractError: the header holds something else than a case id (reason ``bad_value``).
    """
    said = next((value for name, value in headers or () if name == RETRIES_HEADER), None)
    if said is None:
        return None
    text = said.decode("ascii", "replace")
    if _CASE_ID(text) is None:
        raise ContractError(
            f"the header {RETRIES_HEADER} must be the id of a case that failed: send it by `newsproof dlq requeue`",
            reason="bad_value",
        )
    return text


MOST_ATTEMPTS = 20
"""Attempts at one news item at most, the first one included."""


def case_id_of(news: News, retries: str | None) -> str:
    """Return the id of the case that a record opens.

    Raises:
        ContractError: ``retries`` is no attempt at this item, or its last one (reason ``bad_value``). Else one record,
            sent again with any ids, would open a case with each.
    """
    attempt = news.case_id
    if retries is None:
        return attempt
    for _ in range(MOST_ATTEMPTS - 1):
        before, attempt = attempt, uuid5("attempt", attempt)
        if before == retries:
            return attempt
    raise ContractError(
        f"the header {RETRIES_HEADER} names no case of this item that may be tried again (there are {MOST_ATTEMPTS} attempts "
        "at most): send the item without the header, or the failed case's letter by `newsproof dlq requeue`",
        reason="bad_value",
    )


MOST_LOOKS = 4
"""Second looks at one case at most."""


def look_id(of_case: str, number: int, partitions: int) -> str:
    """Return the id of the case that looks at another one again, for the ``number``-th time (from 1).

    ``partitions``: the journal's count. The id lies on the partition of ``of_case``.
    """
    ids = (uuid5("second-look", of_case, str(number), str(n)) for n in count())
    return next(id for id in ids if partition_of(id, partitions) == partition_of(of_case, partitions))


def with_looks(case_id: str, partitions: int) -> frozenset[str]:
    """Return the ids of a case and of every second look that there may be at it."""
    return frozenset({case_id, *(look_id(case_id, number, partitions) for number in range(1, MOST_LOOKS + 1))})


__all__ = ["MOST_ATTEMPTS", "MOST_LOOKS", "RETRIES_HEADER", "case_id_of", "look_id", "retries_of", "with_looks"]
