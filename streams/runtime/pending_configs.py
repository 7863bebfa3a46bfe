"""Cases that wait for the configuration snapshot that they pin."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping


class PendingConfigs:
    """Waiting cases by snapshot hash, with the start of each wait."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[tuple[int, str], float]] = {}

    def add(self, config_hash: str, partition: int, case_id: str) -> None:
        """Add a waiting case."""
        since = asyncio.get_running_loop().time()
        self._waiting.setdefault(config_hash, {})[partition, case_id] = since

    def arrived(self, config_hash: str) -> list[tuple[int, str]]:
        """Remove and return (partition, case id) of the cases that waited for this snapshot."""
        return list(self._waiting.pop(config_hash, {}))

    def older_than(self, seconds: float, is_live: Mapping[int, bool]) -> list[tuple[int, str]]:
        """Remove and return the cases that have waited for longer, on live partitions only."""
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
