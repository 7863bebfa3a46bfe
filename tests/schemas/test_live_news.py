"""Which news is live, and from when on it was knowable."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from schemas.news import BACKFILLED_AFTER, News, is_live, knowable_at

OPENED = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def news(received_ago: timedelta | None, **fields: Any) -> News:
    received = None if received_ago is None else OPENED - received_ago
    return News(source="s", text="t", published_at=OPENED - 12 * HOUR, received_at=received, **fields)


@pytest.mark.parametrize(
    ("item", "live", "knowable"),
    [
        (news(timedelta(seconds=2)), True, OPENED),
        (news(-timedelta(seconds=5)), True, OPENED + timedelta(seconds=5)),  # a listener whose clock is ahead
        (news(2 * HOUR), True, OPENED),  # the intake was down: nobody could act while it was
        (news(BACKFILLED_AFTER), True, OPENED),
        (
            news(BACKFILLED_AFTER + timedelta(milliseconds=1)),
            False,
            OPENED - BACKFILLED_AFTER - timedelta(milliseconds=1),
        ),
        (news(None), False, OPENED - 12 * HOUR),
        (news(HOUR, extra={"flags": ["late"]}), False, OPENED - HOUR),
        (news(HOUR, extra={"flags": ["new", "backfilled"]}), False, OPENED - HOUR),
        (news(HOUR, extra={"flags": ["new"]}), True, OPENED),
        (news(HOUR, extra={"flags": "late"}), True, OPENED),  # not a list of words: somebody else's field
        (news(HOUR, extra={"flags": [{"late": 1}, None]}), True, OPENED),
    ],
)
def test_news_is_live_when_it_was_judged_as_it_came_in(item: News, live: bool, knowable: datetime) -> None:
    assert is_live(item, OPENED) is live
    assert knowable_at(item, OPENED) == knowable
