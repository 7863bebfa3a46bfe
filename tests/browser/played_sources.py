"""Sources as the fake API plays them: the real list, of cursors that a test may change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import msgspec
from aiohttp import web

from infra.listeners.failures import NotReadError, Reason
from infra.settings import load_settings
from newsproof.app.source_list import listed_sources
from streams.listening.memory import SourceCursor

FAILING = (
    ("protos", "it returned status 404", "not_found"),
    ("theblock", "it returned a web page instead of items (<!DOCTYPE html><title>Just a moment...</title>)", "web_page"),
    ("deribit-announcements", "www.deribit.com did not respond within 20 s", "no_connection"),
)  # fmt: skip


class PlayedSources:
    """What is played: a listener that ``listens``, and what it wrote."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)
        self.settings = load_settings(_env_file=None, newsproof_data_dir=Path("nowhere"))
        self.listens = True
        self.cursors: dict[str, SourceCursor] = {}
        for number, one in enumerate(self._items()):
            if not one["on"] or number % 17 == 5:
                continue
            lag = 2.0 + number % 7
            self.cursors[one["id"]] = SourceCursor(
                source=one["id"], looked_at=self.now - timedelta(seconds=20 + number), news_at=self.now - timedelta(minutes=7 * number + 1),
                gaps=9, gap_s=60.0 if one["id"] == "wublock" else 86_400.0, lags=[lag, lag * 3, lag * 40],
                counts={"new": 1_204 // (number + 1), "late": number % 3, "edit": number % 5, "repeat": 31 * number, "refused": int(number % 11 == 10)},
            )  # fmt: skip
        for name, why, reason in FAILING:
            self.fail(name, why, reason)

    def fail(self, name: str, why: str, reason: str) -> None:
        """Let the last look at a source have failed like this."""
        assert reason in get_args(Reason)
        cursor = self.cursors.setdefault(name, SourceCursor(source=name))
        cursor.state, cursor.why, cursor.reason = NotReadError(why, reason).state, why, reason  # type: ignore[arg-type]

    def _items(self) -> list[dict[str, Any]]:
        return list(map(msgspec.to_builtins, listed_sources(self.settings, self.cursors, self.now)))

    def document(self, _request: web.Request) -> Any:
        """Return the answer of `/api/v1/sources`."""
        return {"at": self.now.isoformat(), "listens": self.listens, "has_key": True, "items": self._items()}
