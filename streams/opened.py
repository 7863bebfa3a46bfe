"""The index of what intake has opened: the same news within ``DEDUP_DAYS`` opens no second case."""

from __future__ import annotations


class Opened:
    """What was opened: case ids, and the first case of each (source, external id). Entries leave after ``DEDUP_DAYS``."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, str]] = {}
        self._first: dict[str, str] = {}

    def add(self, news_key: str, case_id: str, at_ms: float) -> None:
        """Remember an opened case."""
        self._seen.setdefault(case_id, (at_ms, news_key))
        self._first.setdefault(news_key, case_id)

    def __contains__(self, case_id: str) -> bool:
        return case_id in self._seen

    def first_of(self, news_key: str) -> str | None:
        """The first case of this source and external id."""
        return self._first.get(news_key)

    def forget_before(self, at_ms: float) -> None:
        """Drop what is older than the window."""
        while self._seen:
            case_id, (seen, news_key) = next(iter(self._seen.items()))
            if seen >= at_ms:
                return
            del self._seen[case_id]
            if self._first.get(news_key) == case_id:
                del self._first[news_key]
