"""The guard against server-side request forgery: only public IP addresses may be opened, whatever name leads to them.

A name is resolved once, all of its addresses must be public, and the connection goes to a checked address
(:mod:`infra.pages.network`). So a name whose resolution changes in the meantime (DNS rebinding) gains nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Sequence

import httpx
import msgspec

from infra.http import quoted
from schemas.errors import PermanentError, TransientError

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
UNRESOLVED = "cannot be resolved"
"""Words of every failure to look up a name: one cause, a name service that does not respond, fails for all names."""
MAX_URL_CHARS = 2048
WEB_PORTS = frozenset({80, 443})
_REFUSED = tuple(
    ipaddress.ip_network(block)
    for block in [
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "168.63.129.16/32",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
        "2620:4f:8000::/48",
        "3fff::/20",
    ]
)
"""The IANA special-purpose registries (https://www.iana.org/assignments/iana-ipv4-special-registry and -ipv6-), and the
address in public space at which Azure serves its machines' secrets.
"""
_GLOBAL_V6 = ipaddress.ip_network("2000::/3")
_NUMBER = re.compile(r"(?:0[xX][0-9a-fA-F]*|[0-9]+)\Z")
_LOCAL_NAMES = frozenset({"localhost", "local", "internal", "intranet", "lan", "home", "corp", "onion", "arpa"})
_NAME = re.compile(r"[a-zA-Z0-9._-]+\Z")
_NOT_IN_ADDRESS = re.compile(r"[\x00-\x20\x7f-\x9f\\<>\"`{}|^\s]")


class Target(msgspec.Struct, frozen=True):
    """A URL that may be tried, parsed once by the same parser that makes the request."""

    url: httpx.URL
    origin: str


def is_public(address: IPAddress, _port: int) -> bool:
    """Return whether an address belongs to the public internet. IPv6 addresses that wrap an IPv4 address never do."""
    if isinstance(address, ipaddress.IPv6Address) and (address not in _GLOBAL_V6 or address.scope_id):
        return False
    return address.is_global and not any(address in block for block in _REFUSED if block.version == address.version)


async def resolve(host: str, port: int) -> tuple[str, ...]:
    """Return a host's addresses from the system's resolver."""
    addresses = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[4][0]) for address in addresses))


class Guard:
    """The rules. Tests inject ``allows`` and ``resolves``; ``ports`` None allows every port."""

    def __init__(
        self,
        *,
        allows: Callable[[IPAddress, int], bool] = is_public,
        ports: frozenset[int] | None = WEB_PORTS,
        resolves: Resolve = resolve,
    ) -> None:
        self._allows, self._ports, self._resolves = allows, ports, resolves

    def target(self, url: str) -> Target:
        """Parse a URL, and refuse it before any network access if its text alone is reason enough.

        Raises:
            PermanentError: the URL is refused.
        """
        if len(url) > MAX_URL_CHARS or _NOT_IN_ADDRESS.search(url):
            raise _refusal(url, "it is too long, or has characters that no address has")
        try:
            parsed = httpx.URL(url)
            port = parsed.port or {"http": 80, "https": 443}.get(parsed.scheme, 0)
        except (httpx.InvalidURL, ValueError, UnicodeError) as exc:
            raise _refusal(url, f"it is no address ({exc})") from exc
        if parsed.scheme not in {"http", "https"}:
            raise _refusal(url, "only http and https are opened")
        if parsed.userinfo or "@" in re.split(r"[/?#]", url.partition("//")[2], maxsplit=1)[0]:
            raise _refusal(url, "it carries a user name")
        if self._ports is not None and port not in self._ports:
            raise _refusal(url, f"port {port} is not the web's")
        host = parsed.raw_host.decode("ascii")
        self._check_host(url, host, port)
        return Target(parsed, f"{parsed.scheme}://{parsed.netloc.decode('ascii')}")

    def _check_host(self, url: str, host: str, port: int) -> None:
        literal = _literal(host)
        if literal is not None:
            if not self._allows(literal, port):
                raise _refusal(url, f"{literal} is no public address")
            return
        labels = host.rstrip(".").split(".")
        # 127.1, 2130706433, 0x7f000001, 0177.0.0.1: some programs read a host that ends in a number as an IPv4 address.
        if _NUMBER.match(labels[-1]) or ":" in host:
            raise _refusal(url, "its host is a number in an unusual spelling")
        if not _NAME.match(host) or len(labels) < 2 or not all(labels) or labels[-1].lower() in _LOCAL_NAMES:
            raise _refusal(url, "its host is no public name")

    async def numbers(self, host: str, port: int) -> tuple[IPAddress, ...]:
        """Return a host's addresses, all of them allowed. The caller must connect only to one of these.

        Raises:
            PermanentError: kind refused; an address is not allowed.
            TransientError: kind network; the name cannot be resolved.
        """
        literal = _literal(host)
        try:
            texts = [str(literal)] if literal is not None else await self._resolves(host, port)
        except (OSError, UnicodeError) as exc:
            raise TransientError(f"the name {quoted(host, 100)} cannot be resolved ({exc})", kind="network") from exc
        numbers = tuple(ipaddress.ip_address(text) for text in texts)
        # One bad address is enough: a name that points both inside and outside is an attack, not a page.
        if bad := [number for number in numbers if not self._allows(number, port)]:
            raise _refusal(host, f"it resolves to {bad[0]}, which is no public address")
        if not numbers:
            raise TransientError(f"the name {quoted(host, 100)} has no address", kind="network")
        return numbers


def _literal(host: str) -> IPAddress | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def _refusal(url: str, why: str) -> PermanentError:
    return PermanentError(f"{quoted(url, 120)} is not opened: {why}", kind="refused")
