"""The view ``v_source_reputation`` says what the fold says, on one journal of all that may happen to a story."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from infra.clickhouse.client import ClickHouse
from infra.clickhouse.rows import rows_of
from schemas.events import CaseDropped, Event, EventReceived
from schemas.ids import uuid5
from schemas.news import News
from schemas.signals import Signal, SignalEvidence
from streams.reputation.fold import Reputation, ReputationFold
from tests.infra.clickhouse.clickhouse_samples import insert_rows, published, record, signal

NOW = datetime.now(UTC).replace(microsecond=0)
SOURCES = {"desk-a": "house", "desk-b": "house", "wire": "", "archive": "", "hook": ""}
VERDICTS = ("confirmed", "confirmed", "refuted", "unconfirmed", "unchecked", None)


class Made:
    """A journal of cases by chance: copies in chains, edits, retries, floods, items played in, signals that are taken back."""

    def __init__(self, seed: int) -> None:
        self.by_chance = random.Random(seed)
        self.events: list[tuple[str, Event, datetime]] = []
        self.signals: list[Signal] = []
        self.opened: list[tuple[str, datetime]] = []
        for number in range(260):
            self._case(number)

    def _case(self, number: int) -> None:
        chance = self.by_chance
        source, case = chance.choice([*SOURCES, "wire", "wire"]), uuid5("case", str(number))
        after = chance.choice(self.opened[-40:]) if self.opened and chance.random() < 0.5 else None
        at = (
            after[1] + timedelta(seconds=15 * chance.randint(0, 8))
            if after
            else NOW - timedelta(days=chance.choice([1, 2, 40, 91]), seconds=number)
        )
        how = chance.choice(["copy", "copy", "copy", "edits", "retries"]) if after else ""
        extra: dict[str, Any] = {"group": SOURCES[source]} if SOURCES[source] else {}
        if source != "hook":
            extra["previous_look_at"] = (at - timedelta(seconds=chance.choice([0, 15, 60]))).isoformat(
                timespec="milliseconds"
            )
        if chance.random() < 0.05:
            extra["flags"] = ["late"]
        news = News(
            source=source, text=f"text {number}", published_at=at - timedelta(seconds=chance.randint(0, 90)), extra=extra,
            received_at=None if source == "archive" else at, url=f"https://www.{SOURCES[source] or source}.com/{number}",
        )  # fmt: skip
        linked = {how: after[0]} if after and how in ("edits", "retries") else {}
        language = "zh" if chance.random() < 0.1 else "en"
        event = EventReceived(
            news=news,
            config_hash="c",
            text_hash=str(number),
            language=language,
            authenticated=chance.random() < 0.9,
            **linked,
        )
        opened = at + timedelta(milliseconds=chance.randint(1, 900))
        self.events.append((case, event, opened))
        self.opened.append((case, at))
        if after and (how == "copy" or chance.random() < 0.2):
            told = CaseDropped(reason="duplicate", detail="", duplicate_of=after[0])
            self.events.append((case, told, opened))
        elif chance.random() < 0.8:
            self._signal(case, SOURCES[source] or source)

    def _signal(self, case: str, own: str) -> None:
        chance = self.by_chance
        pages = [
            f"https://{chance.choice(['blog.' + own, own, 'other', 'third.other'])}.com/p"
            for _ in range(chance.randint(0, 2))
        ]
        evidence = tuple(
            SignalEvidence(url=p, hash="h", stance=chance.choice(["supports", "denies"]), reference_number=1)
            for p in pages
        )  # type: ignore[arg-type]
        made = signal(
            signal_id=f"signal-{case}",
            case_id=case,
            verdict=chance.choice(VERDICTS),
            evidence=evidence,
            action="buy",
            direction="long",
        )
        stages = chance.choice(
            [
                ["final"],
                ["final", "final"],
                ["final", "retracted"],
                ["preliminary", "final"],
                ["preliminary", "retracted"],
            ]
        )
        for revision, stage in enumerate(stages, 1):
            verdict = chance.choice(VERDICTS) if revision == 2 and stage == "final" else made.verdict
            self.signals.append(msgspec.structs.replace(made, revision=revision, stage=stage, verdict=verdict))  # type: ignore[arg-type]

    def folded(self) -> list[Reputation]:
        fold = ReputationFold()
        for case, event, at in self.events:
            fold.take(case, event, at)
        for one in self.signals:
            fold.publish(one)
        return fold.reputations(NOW)

    async def fill(self, client: ClickHouse) -> None:
        rows: dict[str, list[Any]] = defaultdict(list)
        for offset, (case, event, at) in enumerate(self.events):
            made = record(event, case=case, offset=offset, time=at, appended_ms=round(at.timestamp() * 1000))
            for table, found in rows_of(made).items():
                rows[table] += found
        rows["signals"] = [published(one, offset=n) for n, one in enumerate(self.signals)]
        for table, of in rows.items():
            await insert_rows(client, table, of, f"reputation-{NOW}")
        priced = (
            "case_id", "horizon_s", "asset", "entry_at", "entry_price", "exit_at", "exit_price", "return", "version",
        )  # fmt: skip
        bought = (3600, "USDC", NOW + timedelta(hours=1), 100.0, NOW + timedelta(hours=2), 102.0, 0.02, 2)
        await client.insert("outcomes", priced, [(case, *bought) for case in {one.case_id for one in self.signals}])


def as_row(one: Reputation) -> dict[str, Any]:
    """The fold's figures under the names of the view's columns."""
    shares = {
        "first": "compared",
        "copies": "stories",
        "confirmed": "searched",
        "refuted": "searched",
        "retracted": "signals",
    }
    row: dict[str, Any] = {
        name: getattr(one, name) for name in ("source", "language", "owner", "stories", "rated", "tied", "lag_s")
    } | {"edited_stories": one.edited}
    row["lead_s"] = None if one.lead_s is None else one.lead_s.median
    for name, of in shares.items():
        share = getattr(one, name)
        row |= {name: share.count, of: share.of, f"{name}_share": share.share}
        if name != "retracted":
            row |= {f"{name}_low": share.low, f"{name}_high": share.high}
    return row


async def test_the_view_says_what_the_fold_says(clickhouse: ClickHouse) -> None:
    made = Made(7)
    await made.fill(clickhouse)
    folded = [as_row(one) for one in made.folded()]
    names = ", ".join(folded[0])
    found = (await clickhouse.query(f"SELECT {names}, hits FROM v_source_reputation ORDER BY source, language")).dicts()
    for row in folded:  # whoever bought was right, but for what was taken back
        held = row["signals"] - row["retracted"]
        row["hits"] = [(3600, held, held)] if held else []
    assert [
        {n: pytest.approx(v, abs=1e-9) if isinstance(v, float) else v for n, v in row.items()} for row in folded
    ] == found
    for figure in (
        "compared",
        "first",
        "tied",
        "copies",
        "confirmed",
        "refuted",
        "retracted",
        "edited_stories",
        "lag_s",
    ):
        assert any(row[figure] for row in folded), f"the journal tells nothing of {figure}"
    assert {row["rated"] for row in folded} == {True, False}
