"""Cases that wait for the configuration snapshot that they pin."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping


class PendingConfigs:
    """Who waits for which snapshot, and since when."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[tuple[int, str], float]] = {}

    def add(self, config_hash: str, partition: int, case_id: str) -> None:
        """Let a case wait from now on."""
        since = asyncio.get_running_loop().time()
        self._waiting.setdefault(config_hash, {})[partition, case_id] = since

    def arrived(self, config_hash: str) -> list[tuple[int, str]]:
        """Return (partition, case id) of those that waited for this snapshot; they wait no more."""
        return list(self._waiting.pop(config_hash, {}))

    def older_than(self, seconds: float, is_live: Mapping[int, bool]) -> list[tuple[int, str]]:
        """Return those that have waited for longer, but not of partitions that are not live yet; they wait no more."""
        before = asyncio.get_running_loop().time() - seconds
        found: list[tuple[int, str]] = []
        for config_hash, waiting in list(self._waiting.items()):
            due = [key for key, since in waiting.items() if since < before and is_live.get(key[0], True)]
            for key in due:
                del waiting[key]
            found += due
            if not waiting:
                del self._waiting[config_hash]
        return found
