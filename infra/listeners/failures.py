"""Reasons for which a poll of a source fails, and the operator's remedy for each."""

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
    "refused": "open the address in a browser; if it works there, try another network; otherwise mute the source",
    "no_key": "correct the key (in the setting that the row names) and restart the listener, or mute the source",
    "not_found": "look up the address on the publisher's site and correct `url` in sources.toml, or mute the source",
    "robots": "mute the source, or set `robots = false` if the publisher offers this address to programs",
    "not_opened": "correct `url`, or set `private = true` if the address is in your own network",
    "web_page": "open the address in a browser: if it shows only a web page, find the feed's own address and correct "
    "`url`; if it shows the feed, the publisher takes this program for a robot: mute the source",
    "another_shape": "open the address and compare it with the source's row: `url`, `kind`, and for JSON `items` and `title`",
    "no_items": "the listener polls it less often by itself; if this continues, raise `every_s`",
    "too_often": "the listener waits as long as the publisher requests; if this continues, raise `every_s`",
    "unavailable": "the listener retries by itself; if this continues, see the publisher's status page",
    "no_connection": "the listener retries by itself; if this continues, check the host in `url` and your network",
    "too_large": "correct `url` so that it requests fewer items",
    "no_exchange": "correct `url`: for markets it is the id of an exchange in ccxt, such as kraken",
    "unforeseen": "the listener retries by itself; if this continues, report it with the whole error from its log",
}
"""The remedy for each reason."""
assert set(DO) == set(get_args(Reason))


def without_listener(reason: Reason) -> str:
    """Return the remedy after a poll that no listener made, so none will repeat it."""
    return DO[reason].rpartition("if this continues, ")[2]


_BLOCKED = frozenset[Reason]({"refused", "no_key", "robots", "not_opened", "web_page", "no_items", "no_exchange"})


class NotReadError(NewsproofError):
    """A poll failed. ``state`` is blocked if polling again will not help. ``wait_s``: the source's requested pause."""

    def __init__(self, message: str, reason: Reason, *, wait_s: float | None = None) -> None:
        super().__init__(redacted(message))  # a key may be part of an address in the text
        self.reason: Reason = reason
        self.state: Literal["backing_off", "blocked"] = "blocked" if reason in _BLOCKED else "backing_off"
        self.wait_s = None if wait_s is None else min(wait_s, MAX_PAUSE_S)


def of_status(status: int, *, has_key: bool = False) -> Reason:
    """Return the reason for a status that is not a success. ``has_key``: the source uses a key, or should."""
    if status in {401, 402, 403, 407, 418, 451}:
        return "no_key" if has_key and status in {401, 402, 403} else "refused"
    if status == 429:
        return "too_often"
    return "unavailable" if status >= 500 or status == 408 else "not_found"
