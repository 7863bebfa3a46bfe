"""The plan of a chaos run: its size, and the schedule of its faults. Depends only on the seed."""

from __future__ import annotations

import random
from typing import Literal

import msgspec
from msgspec.structs import replace

from lab.chaos.provider import FAULTS
from streams import failpoints

PLAIN = "anywhere"
"""A SIGKILL at a random moment."""
WORKER_POINTS: tuple[str, ...] = (
    failpoints.EFFECT_BEFORE,
    failpoints.EFFECT_ANSWERED,
    failpoints.APPEND_DONE,
    failpoints.PUBLISH_SENT,
    PLAIN,
    failpoints.COMMIT_BEFORE,
    failpoints.PUBLISH_BEGUN,
    failpoints.APPEND_BEFORE,
)
RESEARCH_POINTS = tuple(
    point for point in WORKER_POINTS if point not in (failpoints.PUBLISH_BEGUN, failpoints.PUBLISH_SENT)
)
"""Research workers publish no signals."""
SINK_POINTS = (failpoints.SINK_INSERTED, failpoints.SINK_PLANNED, PLAIN)

Kind = Literal[
    "kill", "sink_kill", "research_kill", "terminate", "zombie", "research_zombie", "join", "leave", "broker", "clickhouse",
    "fault",
]  # fmt: skip


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a run. Times in seconds; ``max_open`` is per worker; a joining worker leaves again later.
    With several ``brokers``, the kills hit coordinators.

    ``workers``, ``kills`` and ``zombies`` belong to the news flow. ``asks_per_s``: questions, investigations and
    watches sent.

    ``partitions`` must be divisible by the number of workers, and by that number plus one: the assignor gives each
    worker at most its rounded-up share, so a joining worker could otherwise get none.
    """

    cases: int = 100_000
    workers: int = 3
    brokers: int = 1
    seed: int = 0
    kills: int = 56
    sink_kills: int = 9
    research_workers: int = 2
    research_kills: int = 24
    research_zombies: int = 2
    asks_per_s: float = 1.0
    broker_restarts: int = 10
    zombies: int = 5
    clickhouse_kills: int = 5
    terminations: int = 6
    joins: int = 4
    faults: int = 12
    partitions: int = 12
    max_open: int = 300
    session_s: float = 10.0
    latency_s: float = 0.05


SHORT = Shape(
    cases=1200,
    workers=2,
    kills=5,
    sink_kills=2,
    research_kills=3,
    research_zombies=1,
    broker_restarts=1,
    zombies=1,
    clickhouse_kills=1,
    terminations=1,
    joins=1,
    faults=4,
    partitions=6,
    max_open=150,
    session_s=6.0,
)
"""A run of under three minutes that still has every kind of fault; its kills are the first of :data:`WORKER_POINTS`."""


class Fault(msgspec.Struct, frozen=True):
    """One fault, injected once ``at`` cases have ended. ``point`` is a failpoint, a provider's fault, or empty."""

    kind: Kind
    at: int
    point: str = ""


def scaled(shape: Shape, cases: int) -> Shape:
    """Return the shape with another number of cases, and faults in proportion (each kind at least once)."""
    share = cases / shape.cases
    counts = (
        "kills",
        "sink_kills",
        "research_kills",
        "research_zombies",
        "broker_restarts",
        "zombies",
        "clickhouse_kills",
        "terminations",
        "joins",
        "faults",
    )
    return replace(shape, cases=cases, **{n: max(1, round(getattr(shape, n) * min(share, 1.0))) for n in counts})


def plan(shape: Shape) -> list[Fault]:
    """Return the faults in order of injection. Failpoints rotate; order and times are drawn from the seed."""
    order = random.Random(shape.seed)
    wanted: list[tuple[Kind, str]] = []
    wanted += [("kill", WORKER_POINTS[i % len(WORKER_POINTS)]) for i in range(shape.kills)]
    wanted += [("sink_kill", SINK_POINTS[i % len(SINK_POINTS)]) for i in range(shape.sink_kills)]
    wanted += [("research_kill", RESEARCH_POINTS[i % len(RESEARCH_POINTS)]) for i in range(shape.research_kills)]
    wanted += [("fault", FAULTS[i % len(FAULTS)]) for i in range(shape.faults)]
    wanted += [("broker", "")] * shape.broker_restarts
    wanted += [("zombie", "")] * shape.zombies
    wanted += [("research_zombie", "")] * shape.research_zombies
    wanted += [("clickhouse", "")] * shape.clickhouse_kills
    wanted += [("terminate", "")] * shape.terminations
    wanted += [("join", "")] * (2 * shape.joins)
    order.shuffle(wanted)
    apart = shape.cases * 0.92 / max(len(wanted), 1)
    faults: list[Fault] = []
    joined = False
    for i, (drawn, point) in enumerate(wanted):
        kind: Kind = drawn
        if drawn == "join":
            kind, joined = ("leave", False) if joined else ("join", True)
        faults.append(Fault(kind, int(apart * (i + 0.2 + 0.6 * order.random())), point))
    return faults


def shaped(*, short: bool, seed: int | None, cases: int | None, **counts: int) -> Shape:
    """Return the shape of a command line. A missing seed is drawn; the printed seed reproduces the plan."""
    shape = SHORT if short else Shape()
    if cases is not None:
        shape = scaled(shape, cases)
    drawn = random.SystemRandom().randrange(1, 2**31) if seed is None else seed
    return replace(shape, seed=drawn, **counts)
