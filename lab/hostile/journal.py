"""Hostile records for ``cases`` and ``research``: forged, misplaced, damaged, of another run or a newer schema version."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random

from lab.hostile.pieces import BAD_NUMBERS, BAD_TIMES, BYTES
from lab.hostile.record import Fate, Headers, HostileRecord
from schemas import envelope as wire
from schemas import events as ev
from schemas.calls import Call
from schemas.effects import Failure, ModelReply
from schemas.ids import LIVE_RUN, text_hash, uuid5
from schemas.news import News
from schemas.topics import partition_of

Written = tuple[bytes, bytes | None, Headers]
Made = tuple[bytes | None, bytes | None, Headers, Fate]
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_REQUIRED = ("ce_id", "ce_type", "ce_time", "ce_subject", "ce_schemaversion", "ce_runid")


class HostileJournal:
    """Makes journal records. ``victims`` are ended cases of good news; ``config_hash`` exists in the log."""

    def __init__(self, partitions: int, config_hash: str) -> None:
        self._partitions = partitions
        self._config_hash = config_hash
        self.victims: list[str] = []

    def record(self, rng: Random, mark: str, *, topic: str = "cases") -> HostileRecord:
        kinds = {**_FOREIGN, **_PASSED_BY, **_FORGED} if topic == "cases" else _FOREIGN
        kind = rng.choices(list(kinds), [weight for weight, _ in kinds.values()])[0]
        key, value, headers, fate = kinds[kind][1](self, rng, mark)
        subject = next((v for k, v in headers if k == "ce_subject"), None) or b""
        right = _right_partition(subject, self._partitions)
        partition = rng.randrange(self._partitions) if right is None else right
        if kind == "another partition":
            partition = (partition + 1 + rng.randrange(self._partitions - 1)) % self._partitions
        if topic != "cases":
            fate = "foreign"
        return HostileRecord(
            kind=f"{topic}: {kind}", topic=topic, fate=fate, key=key, value=value, headers=headers, partition=partition
        )

    # Well-formed records

    def opening(self, mark: str, *, config_hash: str | None = None, run_id: str = LIVE_RUN) -> Written:
        """Return the opening event of a new case."""
        news = News(source="forged", external_id=mark, text=f"forged opening {mark}", published_at=NOW)
        event = ev.EventReceived(
            news=news, config_hash=config_hash or self._config_hash, text_hash=text_hash(news.text), language="en"
        )
        return self._written(event, news.case_id, uuid5("forged", mark), None, run_id)

    def event(self, rng: Random, case: str, *, cause: str | None = None) -> Written:
        """Return a random event of a case whose cause was never the case's head."""
        event = rng.choice(_events())
        causation = None if isinstance(event, ev.COMMANDS) else cause or uuid5("no head", case, str(rng.random()))
        return self._written(event, case, uuid5("forged", str(rng.random())), causation, LIVE_RUN)

    def _written(self, event: ev.Event, case: str, event_id: str, cause: str | None, run_id: str) -> Written:
        at = NOW + timedelta(days=len(event_id) % 7)
        key, value, headers = wire.encode(
            event, id=event_id, case_id=case, causation_id=cause, run_id=run_id, time=at, source="forger"
        )
        return key, value, list(headers)

    def whole(self, rng: Random, mark: str) -> Written:
        """Return an opening, or an event of a case that was never opened."""
        return self.opening(mark) if rng.random() < 0.5 else self.event(rng, uuid5("nobody's case", mark))


def _right_partition(subject: bytes, partitions: int) -> int | None:
    try:
        return partition_of(subject.decode("ascii"), partitions)
    except ValueError:
        return None


def _events() -> tuple[ev.Event, ...]:
    call = Call(
        kind="model", provider="forged", mode="live", request_hash="0" * 32, reply=ModelReply(text="{}"),
        latency_ms=-1e12, replied_at=NOW, cost_usd=None, usage_input_tokens=-5, usage_output_tokens=2**62, attempt=-7,
    )  # fmt: skip
    failure = Failure(kind="internal", message="\x00forged", retryable=True)
    return (
        ev.CaseDropped(reason="spam", detail="forged end"),
        ev.CaseFailed(reason="forged end", failed_step="\x1b[2J", attempts=-(2**60)),
        ev.CaseDegraded(reason="forged", failed_step="x"),
        ev.EffectCompleted(step="triage", request_hash="f" * 32, calls=(call,)),
        ev.StepFailed(
            step="triage", failure=failure, attempt=2**62, outcome="retry", retry_at=datetime(9999, 12, 31, tzinfo=UTC)
        ),
        ev.StepStarted(step="triage", crashes=-1),
        ev.CancelRequested(requested_by="forger", reason="forged"),
        ev.RetractionFound(signal_id="x", of_case="y", kind="retracted", reason="forged"),
    )


# Records that do not belong to a journal: dead letters


def _changed(headers: Headers, name: str, value: bytes | None) -> Headers:
    return [(k, value if k == name else v) for k, v in headers]


def _without(j: HostileJournal, rng: Random, mark: str) -> Made:
    key, value, headers = j.whole(rng, mark)
    gone = rng.sample(_REQUIRED, rng.randint(1, len(_REQUIRED)))
    return key, value, [(k, v) for k, v in headers if k not in gone], "dead_letter"


def _null_header(j: HostileJournal, rng: Random, mark: str) -> Made:
    key, value, headers = j.whole(rng, mark)
    return key, value, _changed(headers, rng.choice(_REQUIRED), None), "dead_letter"


def _odd_time(j: HostileJournal, rng: Random, mark: str) -> Made:
    key, value, headers = j.whole(rng, mark)
    return key, value, _changed(headers, "ce_time", rng.choice(BAD_TIMES).encode()), "dead_letter"


def _odd_version(j: HostileJournal, rng: Random, mark: str) -> Made:
    key, value, headers = j.whole(rng, mark)
    return key, value, _changed(headers, "ce_schemaversion", rng.choice(BAD_NUMBERS)), "dead_letter"


def _odd_id(j: HostileJournal, rng: Random, mark: str) -> Made:
    key, value, headers = j.whole(rng, mark)
    name = rng.choice(("ce_id", "ce_subject", "ce_runid", "ce_type"))
    odd = rng.choice((b"", b" ", b"\x00", b"\xff\xfe", b"../x y", "新".encode(), b"i" * 100_000, b"a\nb", b"\x1b[2J"))
    return key, value, _changed(headers, name, odd), "dead_letter"


def _odd_case(j: HostileJournal, rng: Random, mark: str) -> Made:
    key, value, headers = j.whole(rng, mark)
    case = uuid5("odd", mark)
    odd = rng.choice((case.upper(), case[:35], case + "0", "z" * 36, "{" + case[1:], "-" * 36, case.replace("-", "_")))
    return key, value, _changed(headers, "ce_subject", odd.encode()), "dead_letter"


def _another_run(j: HostileJournal, rng: Random, mark: str) -> Made:
    return *j.opening(mark, run_id=rng.choice(("backtest-1", "LIVE", "live2", "."))), "dead_letter"


def _another_partition(j: HostileJournal, rng: Random, mark: str) -> Made:
    return *j.whole(rng, mark), "dead_letter"


def _garbage(j: HostileJournal, rng: Random, mark: str) -> Made:
    headers: Headers = [] if rng.random() < 0.5 else [(b"\xff\xfe", b"\x00"), ("ce_type", None)]
    return rng.choice((None, b"", mark.encode(), b"\xff")), rng.choice(BYTES), headers, "dead_letter"


# Complete records that the acceptance rule ignores


def _of_nobody(j: HostileJournal, rng: Random, mark: str) -> Made:
    key, value, headers = j.event(rng, uuid5("nobody's case", mark))
    return rng.choice((key, None, b"\xff")), rng.choice((value, value, *BYTES)), headers, "passed_by"


def _of_tomorrow(j: HostileJournal, rng: Random, mark: str) -> Made:
    key, value, headers = j.event(rng, uuid5("nobody's case", mark))
    if rng.random() < 0.5:
        return key, value, _changed(headers, "ce_schemaversion", rng.choice((b"999", b"9999", b"2"))), "passed_by"
    return key, value, _changed(headers, "ce_type", b"newsproof.case_dreamt"), "passed_by"


def _of_a_victim(j: HostileJournal, rng: Random, mark: str) -> Made:
    if not j.victims:
        return _of_nobody(j, rng, mark)
    case = rng.choice(j.victims)
    return *j.event(rng, case, cause=rng.choice((None, uuid5("opening", LIVE_RUN, case)))), "passed_by"


def _second_opening(j: HostileJournal, rng: Random, mark: str) -> Made:
    if not j.victims:
        return _of_nobody(j, rng, mark)
    key, value, headers = j.opening(mark)
    return key, value, _changed(headers, "ce_subject", rng.choice(j.victims).encode()), "passed_by"


def _opening_with_a_cause(j: HostileJournal, rng: Random, mark: str) -> Made:
    key, value, headers = j.opening(mark)
    return key, value, [*headers, ("ce_causationid", b"something")], "passed_by"


# Records that the acceptance rule accepts. They need write access to the journal, which access control prevents.


def _forged_opening(j: HostileJournal, rng: Random, mark: str) -> Made:
    key, value, headers = j.opening(mark)
    return rng.choice((key, None)), value, [*headers, ("ce_id", uuid5("the last counts", mark).encode())], "case"


def _unreadable_opening(j: HostileJournal, rng: Random, mark: str) -> Made:
    key, _, headers = j.opening(mark)
    return key, rng.choice(BYTES), headers, "failed_case"


_Kinds = dict[str, tuple[float, Callable[[HostileJournal, Random, str], Made]]]
_FOREIGN: _Kinds = {
    "headers that are missing": (8, _without),
    "null headers": (5, _null_header),
    "odd times": (5, _odd_time),
    "odd versions": (5, _odd_version),
    "odd ids": (6, _odd_id),
    "odd case ids": (5, _odd_case),
    "another run": (5, _another_run),
    "another partition": (6, _another_partition),
    "garbage": (10, _garbage),
}
_PASSED_BY: _Kinds = {
    "a case that nobody opened": (15, _of_nobody),
    "a schema of tomorrow": (6, _of_tomorrow),
    "a case that is over": (12, _of_a_victim),
    "a second opening": (5, _second_opening),
    "an opening with a cause": (3, _opening_with_a_cause),
}
_FORGED: _Kinds = {
    "a forged opening": (1.5, _forged_opening),
    "an opening nobody can read": (1.5, _unreadable_opening),
}
