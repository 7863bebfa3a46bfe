"""A client of event streams that behaves like a browser: it reads events and reconnects with the last id."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx

from newsproof.web.tokens import FILE

WITHIN_S = 60.0


def asked_with(told: str, data: Path) -> dict[str, Any]:
    """Return the httpx arguments for the service at the address that it printed, with its data directory's token."""
    at = urlsplit(told.split(maxsplit=1)[0])
    token = (data / FILE).read_text("ascii").strip()
    return {"base_url": f"{at.scheme}://{at.netloc}/", "headers": {"authorization": f"Bearer {token}"}}


class Sent(NamedTuple):
    """One event. ``id``: the last id sent so far."""

    event: str
    data: dict[str, Any]
    id: str


class Stream:
    """An open stream. ``last_id``: the id with which a browser would reconnect."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.last_id = ""
        self._lines = response.aiter_lines()

    async def next(self) -> Sent | None:
        """Return the next event, None at the end."""
        event, data = "message", []
        async with asyncio.timeout(WITHIN_S):
            async for line in self._lines:
                field, _, value = line.partition(": ")
                if field == "id":
                    self.last_id = value
                elif field == "event":
                    event = value
                elif field == "data":
                    data.append(value)
                elif not line:
                    if data:
                        return Sent(event, json.loads("\n".join(data)), self.last_id)
                    event = "message"
        return None

    async def until(self, wanted: str, number: int = 1) -> list[Sent]:
        """Return the events up to and including the given number of this kind."""
        got: list[Sent] = []
        while sum(one.event == wanted for one in got) < number:
            one = await self.next()
            assert one is not None, f"the stream ended before {number} of {wanted}: {got}"
            got.append(one)
        return got

    async def rest(self) -> list[Sent]:
        """Return everything up to the end of the stream."""
        got = []
        while (one := await self.next()) is not None:
            got.append(one)
        return got

    async def connected(self) -> None:
        """Wait for the first heartbeat with a position: from then on nothing is missed."""
        async with asyncio.timeout(WITHIN_S):
            async for line in self._lines:
                if line.startswith("id: "):
                    self.last_id = line[4:]
                    return
        raise AssertionError("the stream ended at its start")


@asynccontextmanager
async def streaming(
    http: httpx.AsyncClient, path: str, *, last_id: str = "", method: str = "GET", **more: Any
) -> AsyncIterator[Stream]:
    """Open a stream, after ``last_id`` if it is given."""
    headers = {"last-event-id": last_id} if last_id else {}
    async with http.stream(method, path, headers=headers, **more) as response:
        assert response.status_code == 200, (await response.aread()).decode()
        yield Stream(response)
