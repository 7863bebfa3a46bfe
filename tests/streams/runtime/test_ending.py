"""What ends a worker: the first word counts, whoever says it."""

from __future__ import annotations

import asyncio

import pytest

from schemas.errors import TransientError
from streams.ending import Ending

MOVED = TransientError("the log moved", kind="internal")


async def test_an_error_ends_a_worker_also_when_it_is_asked_to_end_afterwards() -> None:
    ending = Ending()
    waiting = asyncio.create_task(ending.wait())
    assert not ending.over
    ending.fail(MOVED)
    ending.stop()
    with pytest.raises(TransientError, match="the log moved"):
        await waiting


async def test_what_fails_after_a_worker_was_asked_to_end_makes_its_end_no_failure() -> None:
    ending = Ending()
    ending.stop()
    ending.fail(MOVED)
    await ending.wait()
    assert ending.over and ending.error is None
