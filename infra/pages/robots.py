"""Sites' robots.txt (RFC 9309), fetched at most once an hour per site."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from infra.http import UselessAnswerError
from schemas.errors import TransientError

KEPT_S = 3600.0
MAX_SITES = 1024
MAX_BYTES = 500 * 1024
"""Maximum bytes parsed of a file. RFC 9309, 2.5, requires at least this limit."""

MAX_KEPT_BYTES = 16 * 1024 * 1024
"""Maximum size of the cache for all sites."""

Ask = Callable[[str], Awaitable[tuple[int, bytes]]]
"""Opens a URL under the guard, following redirects; returns (status, body)."""
Judge = Callable[[bytes, str], Awaitable[bool]]
"""Returns whether rules (a file's bytes) allow a URL: :func:`infra.pages.rules.allowed_by` in a separate process."""


class Robots:
    """Cache of the sites' rules. A failing robots.txt (5xx) disallows everything, a missing one allows everything."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, bytes | bool]] = OrderedDict()

    async def allows(self, origin: str, url: str, ask: Ask, judge: Judge) -> bool:
        """Return whether the URL may be opened.

        Raises:
            TransientError, PermanentError: robots.txt could not be fetched or parsed.
        """
        known = self._known.get(origin)
        if known is None or known[0] < self._clock():
            known = (self._clock() + KEPT_S, await self._read(origin, ask))
            self._known[origin] = known
            while len(self._known) > MAX_SITES or self._kept_bytes() > MAX_KEPT_BYTES:
                self._known.popitem(last=False)
        rules = known[1]
        return rules if isinstance(rules, bool) else await judge(rules, url)

    def _kept_bytes(self) -> int:
        return sum(len(rules) for _, rules in self._known.values() if isinstance(rules, bytes))

    async def _read(self, origin: str, ask: Ask) -> bytes | bool:
        try:
            status, body = await ask(f"{origin}/robots.txt")
        except UselessAnswerError:
            return True  # too large for a set of rules
        if status >= 500:
            return False
        if status == 429:
            raise TransientError(f"{origin} asks for fewer requests", kind="rate_limit", status=429)
        return body[:MAX_BYTES] if status == 200 and body else True
