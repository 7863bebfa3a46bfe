"""The generator: record n of a seed is always the same, whatever was generated before it."""

from __future__ import annotations

from random import Random

from lab.hostile.journal import HostileJournal
from lab.hostile.news import hostile_news
from lab.hostile.others import hostile_budget, hostile_config, hostile_lease, hostile_letter, hostile_signal
from lab.hostile.record import HostileRecord

SHARES = {
    "news": 40, "cases": 34, "signals": 8, "budget": 5, "configs": 5, "dead-letters": 4, "research": 3,
    "publisher-lease": 1,
}  # fmt: skip
"""Records per topic in a hundred."""


class Generator:
    """Generates hostile records for one installation. ``journal.victims`` may grow meanwhile."""

    def __init__(self, seed: int, *, partitions: int, config_hash: str) -> None:
        self._seed = seed
        self.journal = HostileJournal(partitions, config_hash)

    def record(self, number: int) -> HostileRecord:
        rng = Random(f"{self._seed}:{number}")
        mark = f"{self._seed}-{number}"
        topic = rng.choices(list(SHARES), list(SHARES.values()))[0]
        match topic:
            case "news":
                return hostile_news(rng, mark)
            case "cases" | "research":
                return self.journal.record(rng, mark, topic=topic)
            case "signals":
                return hostile_signal(rng, mark)
            case "budget":
                return hostile_budget(rng, mark)
            case "configs":
                return hostile_config(rng, mark)
            case "dead-letters":
                return hostile_letter(rng, mark)
            case _:
                return hostile_lease(rng, mark)
