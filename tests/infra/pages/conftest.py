"""A reading process that the tests of a file share: starting one takes half a second of a core."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from infra.pages import port
from infra.pages.reader_client import Reader


class LentReader:
    """The reader of this time limit that the file keeps; whoever borrows it does not end it."""

    def __init__(self, limit_s: float, kept: dict[float, Reader]) -> None:
        reader = kept.setdefault(limit_s, Reader(limit_s))
        self.page, self.allows = reader.page, reader.allows

    async def close(self) -> None:
        """Leave the process to the next test."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kept_readers() -> AsyncIterator[dict[float, Reader]]:
    kept: dict[float, Reader] = {}
    yield kept
    for reader in kept.values():
        await reader.close()


@pytest.fixture
def shared_reader(kept_readers: dict[float, Reader], monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that this test opens are read by the file's process. The test must run in the file's event loop."""

    def lent(limit_s: float) -> Any:
        return LentReader(limit_s, kept_readers)

    monkeypatch.setattr(port, "Reader", lent)
