"""Synthetic prices for the 42 sample events, so that everything after an import can be tried without a network.

They are a seeded random walk that is independent of the news, so the expected hit rate is about one half. They show
that the pipeline works and say nothing about the judgements.

    newsproof outcomes synthetic --out FILE       writes the bundled file (seed 7) again, byte for byte
"""

from __future__ import annotations

import csv
import io
import json
import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import resources
from itertools import pairwise
from pathlib import Path

from schemas.evidence import DOLLAR_PEGGED

SEED = 7
BUNDLED = "synthetic_prices.csv"
START_PRICE = 100.0
"""Start price of every asset except stablecoins, which start at 1."""
STEP = timedelta(minutes=5)
_BEFORE, _FINE, _AFTER = timedelta(minutes=30), timedelta(hours=2), timedelta(hours=25)
"""Bars around each event: 5 minutes long from half an hour before it to two hours after it, then hourly."""
_VOLATILITY = 0.0015
"""Standard deviation of the log price over one step; times ``_SHOCK`` in the hour after an event."""
_SHOCK = 6.0
_SHOCK_LASTS = timedelta(hours=1)
_HEADER = (
    "# SYNTHETIC prices: invented by a seeded random walk (seed {seed}), for trying out. No market ever had them.",
    "# Written by: newsproof outcomes synthetic --seed {seed}",
    "timestamp,symbol,open,high,low,close,volume",
)


def bundled_prices() -> Path:
    """Return the path of the bundled file."""
    return Path(str(resources.files("infra.market.outcomes").joinpath(BUNDLED)))


def sample_events() -> list[tuple[str, datetime]]:
    """Return the asset and publication time of each sample event, in time order."""
    lines = resources.files("infra.offline").joinpath("sample/history.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines if line]
    events = [(row["asset"], datetime.fromisoformat(row["published_at"]).astimezone(UTC)) for row in rows]
    return sorted(events, key=lambda event: (event[1], event[0]))


def synthetic_csv(seed: int = SEED) -> str:
    """Return the file's text. It depends only on the seed and the sample, not on the machine."""
    out = io.StringIO()
    out.write("\n".join(_HEADER).format(seed=seed) + "\n")
    writer = csv.writer(out, lineterminator="\n")
    events = sample_events()
    for asset in dict.fromkeys(asset for asset, _ in events):
        draw = random.Random(f"{seed}:{asset}")
        times = [at for of, at in events if of == asset]
        for row in _bars(times, 1.0 if asset in DOLLAR_PEGGED else START_PRICE, draw):
            at, *prices = row
            figures = [f"{price:.4f}" for price in prices]
            writer.writerow([f"{at:%Y-%m-%dT%H:%M:%SZ}", f"{asset}/USDT", *figures, draw.randint(1, 999)])
    return out.getvalue()


def _bars(
    times: list[datetime], start: float, draw: random.Random
) -> Iterator[tuple[datetime, float, float, float, float]]:
    for group in _groups(times):
        path, opens = _path(group, start, draw), _opens(group)
        for this, following in pairwise(opens):
            inside = [path[this + n * STEP] for n in range((following - this) // STEP + 1)]
            yield this, inside[0], max(inside), min(inside), inside[-1]


def _groups(times: list[datetime]) -> list[list[datetime]]:
    """Group events of one asset whose price windows overlap; each group shares one walk."""
    groups: list[list[datetime]] = []
    for at in times:
        if groups and at - groups[-1][-1] <= _AFTER + _BEFORE:
            groups[-1].append(at)
        else:
            groups.append([at])
    return groups


def _opens(group: list[datetime]) -> list[datetime]:
    opens: set[datetime] = set()
    for at in group:
        first = _floor(at - _BEFORE)
        opens |= {first + n * STEP for n in range((_BEFORE + _FINE) // STEP + 1)}
        hour = (at + _FINE).replace(minute=_floor(at).minute, second=0, microsecond=0)
        opens |= {hour + timedelta(hours=n) for n in range((_AFTER - _FINE) // timedelta(hours=1) + 1)}
        # Entries fall on the next five minutes, so their exits after 4 and 24 hours do too.
        opens |= {_floor(at) + STEP + timedelta(hours=n) for n in (4, 24)}
    return sorted(opens)


def _path(group: list[datetime], start: float, draw: random.Random) -> dict[datetime, float]:
    at, end = _floor(group[0] - _BEFORE), _floor(group[-1]) + _AFTER + timedelta(hours=1)
    path, price = {}, start
    while at <= end:
        path[at] = price
        shocked = any(timedelta(0) <= at - event < _SHOCK_LASTS for event in group)
        price *= math.exp(draw.gauss(0.0, _VOLATILITY * (_SHOCK if shocked else 1.0)))
        at += STEP
    return path


def _floor(at: datetime) -> datetime:
    return at.replace(minute=at.minute - at.minute % 5, second=0, microsecond=0)
