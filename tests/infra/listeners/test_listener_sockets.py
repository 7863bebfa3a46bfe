"""What a socket may connect to: the addresses that pages may be read from, whatever name leads there."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from infra.listeners.failures import NotReadError
from infra.listeners.fetching import connected
from infra.listeners.source import Source
from infra.pages.guard import Guard
from tests.infra.fakes.server import FakeServer, Say

pytestmark = pytest.mark.security


def row(url: str) -> Source:
    return Source(id="x", kind="socket", url=url, title="t")


@pytest.mark.parametrize(
    "url",
    [
        "ws://127.0.0.1/",
        "wss://[::1]/",
        "ws://169.254.169.254/",
        "wss://localhost/",
        "wss://2130706433/",
        "wss://inside.example/",
    ],
)
async def test_a_socket_to_an_inside_address_is_refused(url: str) -> None:
    async def inside(_host: str, _port: int) -> list[str]:
        return ["93.184.216.34", "10.0.0.7"]

    with pytest.raises(NotReadError, match="not opened") as refused:
        async with connected(row(url), Guard(resolves=inside)):
            raise AssertionError("it was connected")
    assert refused.value.state == "blocked"


async def test_a_server_that_speaks_no_websocket_is_said_to() -> None:
    anywhere = Guard(allows=lambda _address, _port: True, ports=None)
    for status, state in ((401, "blocked"), (200, "backing_off"), (503, "backing_off")):
        async with FakeServer(Say(status=status)) as server:
            with pytest.raises(NotReadError, match=f"status {status}") as refused:
                async with connected(row(server.url.replace("http", "ws")), anywhere):
                    raise AssertionError("it was connected")
            assert refused.value.state == state


async def test_a_socket_follows_no_redirect_and_takes_its_key_nowhere() -> None:
    """A resolver sees no literal address, so a redirect could reach this machine, with the row's headers."""
    async with FakeServer(Say(status=401)) as inside:
        async with FakeServer(Say(status=302, headers={"location": inside.url})) as outside:
            source = replace(row(outside.url.replace("http", "ws")), headers={"x-api-key": "secret"})
            with pytest.raises(NotReadError) as refused:
                async with connected(source, Guard(allows=lambda _address, _port: True, ports=None)):
                    raise AssertionError("it was connected")
        assert (inside.requests, len(outside.requests)) == ([], 1)
        assert refused.value.state == "blocked" and "redirect" in str(refused.value)
