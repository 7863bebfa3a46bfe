"""Worker, research worker and sink as the page sees them: what each reports on `/readyz` and `/metrics`.

Their addresses are in files that Prometheus also reads (:mod:`newsproof.app.processes.targets`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import httpx
import msgspec
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from newsproof.app.processes.targets import Target, targets_in
from streams.journal.clock import utc_now

WITHIN_S = 3.0
"""Timeout after which a process counts as unreachable."""

Sample = tuple[str, dict[str, str], float]
"""Name, labels and value of one sample of `/metrics`."""


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A process now. ``waits``: what it waits for. ``seen_at``: its last response to this service (UTC), or None."""

    name: str
    kind: str
    state: Literal["ready", "waits", "away"]
    waits_for: dict[str, str] = {}
    seen_at: datetime | None = None


class Figures:
    """The samples of all processes that responded, by process."""

    def __init__(self, samples: Iterable[tuple[str, Sample]] = ()) -> None:
        self._samples = list(samples)

    def of(self, name: str, **labels: str) -> list[tuple[str, dict[str, str], float]]:
        """Return (process, labels, value) of the samples of this name with these labels."""
        return [
            (process, found, value)
            for process, (known, found, value) in self._samples
            if known == name and labels.items() <= found.items()
        ]

    def one(self, how: Callable[[list[float]], float], name: str, **labels: str) -> float | None:
        """Return the values of :meth:`of` combined by sum, min or max; None if no process reports any."""
        values = [value for _, _, value in self.of(name, **labels)]
        return how(values) if values else None


class Processes:
    """The processes in the files of this data directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen: dict[str, datetime] = {}

    async def look(self) -> tuple[list[Process], Figures]:
        """Read the state of all processes concurrently."""
        async with httpx.AsyncClient(trust_env=False, timeout=WITHIN_S) as http:
            found = await asyncio.gather(*(self._asked(http, one) for one in targets_in(self._directory)))
        return [process for process, _ in found], Figures(
            (process.name, sample) for process, samples in found for sample in samples
        )

    async def _asked(self, http: httpx.AsyncClient, target: Target) -> tuple[Process, list[Sample]]:
        process = Process(name=target.name, kind=target.kind, state="away", seen_at=self._seen.get(target.name))
        try:
            said, told = await asyncio.gather(http.get(f"{target.url}/readyz"), http.get(f"{target.url}/metrics"))
            waits_for = msgspec.json.decode(said.content, type=_Ready).waits_for
            samples = _samples(told.raise_for_status().text)
        except (httpx.HTTPError, httpx.InvalidURL, msgspec.MsgspecError, ValueError):
            return process, []
        self._seen[target.name] = now = utc_now()
        return replace(process, state="waits" if waits_for else "ready", waits_for=waits_for, seen_at=now), samples


class _Ready(msgspec.Struct):
    waits_for: dict[str, str]


def _samples(text: str) -> list[Sample]:
    families: Iterable[Any] = text_string_to_metric_families(text)
    return [(one.name, dict(one.labels), one.value) for family in families for one in family.samples]
