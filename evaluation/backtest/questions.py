"""What today's code asks of recorded cases with nothing changed, compared with what the recording holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from agents.core.registry import Registry
from evaluation.backtest.deciding import Deciding
from evaluation.backtest.journal import Source, drawn, recordings
from evaluation.compare.code_identity import QuestionCounts
from schemas.config import Snapshot
from schemas.effects import CallModel
from streams.replay import Change, Miss, Recording, Replayed

CASES = 300
"""Cases that are looked at: a step that asks otherwise does so in nearly each that reaches it."""


async def questions(source: Source, chosen: Sequence[str], registry: Registry) -> tuple[dict[str, QuestionCounts], int]:
    """Return (by step, how many of its questions to a model have another hash than recorded; cases looked at).

    The recorded answer stands in for that to a changed question, so that the steps behind are looked at too. No call is made.
    """
    wanted = frozenset(drawn(list(chosen), CASES))
    deciding = Deciding(registry, source.snapshots, Change(), ask_every_step=True)
    asked, otherwise, cases = Counter[str](), Counter[str](), 0
    async for recording in recordings(source, wanted.__contains__):
        if recording.unreadable:
            continue
        cases += 1
        for used in _asked_again(deciding, recording).used:
            if used.kind == "model":
                asked[used.step] += 1
                otherwise[used.step] += used.execution != "reused"
    return {step: QuestionCounts(asked[step], otherwise[step]) for step in asked}, cases


def _asked_again(deciding: Deciding, recording: Recording) -> Replayed:
    asking = deciding.replay(recording).run()
    try:
        need = next(asking)
        while True:
            known = need.stand_in if isinstance(need.effect, CallModel) else ()
            need = asking.send(known or Miss("the recording has no answer that could stand in"))
    except StopIteration as stop:
        replayed: Replayed = stop.value
        return replayed


def recorded_code(snapshots: Mapping[str, Snapshot], config_hashes: Sequence[str]) -> tuple[str, ...]:
    """Return the code versions that these snapshots pin, in order; none where a snapshot is not there: it is unknown then."""
    pinned = [snapshots.get(one) for one in dict.fromkeys(config_hashes)]
    return tuple(sorted({s.code_version for s in pinned if s is not None})) if all(pinned) else ()
