"""Why a look at a source brought nothing, and what whoever runs the listener does about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from infra.listeners.source import MAX_PAUSE_S
from infra.redaction import redacted
from schemas.errors import NewsproofError

Reason = Literal[
    "refused", "no_key", "not_found", "robots", "not_opened", "web_page", "another_shape", "no_items", "too_often",
    "unavailable", "no_connection", "too_large", "no_exchange", "unforeseen",
]  # fmt: skip
"""Also the label of ``newsproof_listener_source_failures`` and the end of the page's ``sources.do.*``."""

DO: Mapping[Reason, str] = {
    "refused": "open the address in a browser; where it shows there, ask from another network; else mute the source",
    "no_key": "correct the key, whose setting the row names under `key`, and start the listener again; or mute the source",
    "not_found": "look up the address at the publisher and correct `url` in sources.toml, or mute the source",
    "robots": "mute the source, or set `robots = false` where the publisher offers this address to programs",
    "not_opened": "correct `url`, or set `private = true` where the address is of your own network",
    "web_page": "open the address in a browser: if a page is all there is, find the feed's own address and correct `url`; if "
    "the feed shows there, the publisher takes this program for a robot: mute the source",
    "another_shape": "open the address and compare it with the source's row: `url`, `kind`, and for JSON `items` and `title`",
    "no_items": "it is asked less often by itself; raise `every_s` where it goes on",
    "too_often": "it is left alone for as long as it asks; raise `every_s` where it goes on",
    "unavailable": "it is tried again by itself; look at the publisher's status page where it goes on",
    "no_connection": "it is tried again by itself; where it goes on, check the host in `url` and this machine's network",
    "too_large": "correct `url` so that it asks for fewer items",
    "no_exchange": "correct `url`, which for markets is the id of an exchange in ccxt, such as kraken",
    "unforeseen": "it is tried again by itself; the listener's log has the whole error",
}
"""What to do for each."""
assert set(DO) == set(get_args(Reason))
_BLOCKED = frozenset[Reason]({"refused", "no_key", "robots", "not_opened", "web_page", "no_items", "no_exchange"})


class NotReadError(NewsproofError):
    """A look brought nothing. ``state`` is blocked where asking again as before will not help. ``wait_s``: as it asked for."""

    def __init__(self, message: str, reason: Reason, *, wait_s: float | None = None) -> None:
        super().__init__(redacted(message))  # a key may be part of the address that it names
        self.reason: Reason = reason
        self.state: Literal["backing_off", "blocked"] = "blocked" if reason in _BLOCKED else "backing_off"
        self.wait_s = None if wait_s is None else min(wait_s, MAX_PAUSE_S)


def of_status(status: int, *, has_key: bool = False) -> Reason:
    """Return why a status that is no success was answered. ``has_key``: the source is asked with a key, or should be."""
    if status in {401, 402, 403, 407, 418, 451}:
        return "no_key" if has_key and status in {401, 402, 403} else "refused"
    if status == 429:
        return "too_often"
    return "unavailable" if status >= 500 or status == 408 else "not_found"
