"""What a site lets robots open (RFC 9309), asked once an hour for each site."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from protego import Protego

from infra.http import UselessAnswerError
from schemas.errors import TransientError

AGENT = "Newsproof"
KEPT_S = 3600.0
MAX_SITES = 1024
MAX_BYTES = 500 * 1024
"""What is read of a file; RFC 9309, 2.5, asks for at least this much."""

Ask = Callable[[str], Awaitable[tuple[int, bytes]]]
"""Opens an address under the guard, redirects followed; returns (status, body)."""


class Robots:
    """The rules of the sites asked so far. A site that fails to tell (5xx) lets nothing be opened; one without rules, all."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, Protego | bool]] = OrderedDict()

    async def allows(self, origin: str, url: str, ask: Ask) -> bool:
        """Whether this address may be opened.

        Raises:
            TransientError, PermanentError: the site could not be asked.
        """
        known = self._known.get(origin)
        if known is None or known[0] < self._clock():
            known = (self._clock() + KEPT_S, await self._read(origin, ask))
            self._known[origin] = known
            while len(self._known) > MAX_SITES:
                self._known.popitem(last=False)
        rules = known[1]
        return rules if isinstance(rules, bool) else bool(rules.can_fetch(url, AGENT))

    async def _read(self, origin: str, ask: Ask) -> Protego | bool:
        try:
            status, body = await ask(f"{origin}/robots.txt")
        except UselessAnswerError:
            return True  # larger than any set of rules
        if status >= 500:
            return False
        if status == 429:
            raise TransientError(
                f"{origin} asks for fewer requests; it is tried again later", kind="rate_limit", status=429
            )
        if status != 200:
            return True
        return Protego.parse(body[:MAX_BYTES].decode("utf-8", "replace").removeprefix("\ufeff"))
