"""Topic names, and which partition a record belongs to."""

from __future__ import annotations

import msgspec

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""``max.message.bytes`` of every topic (the issue's "Large bodies")."""
MAX_BODY_BYTES = 64 * 1024
"""Adapters cut page texts and search contents here and say so (``truncated``)."""


RESEARCH_TOPIC = "research"
"""How the name of the chats' journal ends."""


class Topics(msgspec.Struct, frozen=True):
    """The topics of one installation; ``prefix`` such as ``newsproof.``."""

    prefix: str = "newsproof."

    @property
    def news(self) -> str:
        return self.prefix + "news"

    @property
    def cases(self) -> str:
        return self.prefix + "cases"

    @property
    def signals(self) -> str:
        return self.prefix + "signals"

    @property
    def budget(self) -> str:
        return self.prefix + "budget"

    @property
    def configs(self) -> str:
        return self.prefix + "configs"

    @property
    def dead_letters(self) -> str:
        return self.prefix + "dead-letters"

    @property
    def research(self) -> str:
        return self.prefix + RESEARCH_TOPIC

    @property
    def watches(self) -> str:
        return self.prefix + "watches"

    def journal(self, name: str) -> str:
        """The journal of a flow, such as cases or research."""
        return self.prefix + name

    @property
    def publisher_lease(self) -> str:
        """One empty partition: whoever its group assigns it to, publishes."""
        return self.prefix + "publisher-lease"

    @property
    def listener_items(self) -> str:
        """What listeners have seen: a record for each source and external id."""
        return self.prefix + "listener-items"

    @property
    def listener_cursors(self) -> str:
        """How far listeners are: a record for each source, and one for the news that they wrote."""
        return self.prefix + "listener-cursors"

    @property
    def listener_lease(self) -> str:
        """One empty partition: whoever its group assigns it to, listens."""
        return self.prefix + "listener-lease"

    @property
    def reputation(self) -> str:
        """The figures of each source and language, written once a day."""
        return self.prefix + "reputation"

    def group(self, reader: str) -> str:
        """Consumer group of a reader: worker, publisher, sink."""
        return self.prefix + reader

    def transactional_id(self, writer: str) -> str:
        """Fixed transactional id, so that a second writer fences the first."""
        return self.prefix + writer


def partition_of(case_id: str, partitions: int) -> int:
    """Return the journal partition of a case. Case ids are hashes, so their leading bits are uniform already."""
    return int(case_id[:8], 16) % partitions
