"""Another attempt at a case that failed: a news record that says so in a header opens a case of its own.

The id of that case is made of the failed case's id alone. So however often the record is sent, by whoever, it opens one
case; and when that one fails too, its own dead letter leads to the next attempt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from schemas.errors import ContractError
from schemas.ids import uuid5
from schemas.news import News

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


def case_id_of(news: News, retries: str | None) -> str:
    """Return the id of the case that a record opens."""
    return news.case_id if retries is None else uuid5("attempt", retries)


__all__ = ["RETRIES_HEADER", "case_id_of", "retries_of"]
