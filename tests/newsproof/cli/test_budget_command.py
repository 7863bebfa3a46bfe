"""``newsproof budget``, and the settings behind it."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from typing import Any

import pytest

from infra.kafka.topics import KafkaAddress
from infra.settings import Settings
from newsproof.app.composition import budget_of
from schemas.budget import BudgetRecord, LimitsSet, Reserved, Settled, encode
from schemas.topics import Topics
from streams.ending import Ending
from streams.wake import Wake
from tests.newsproof.conftest import Run


async def written(address: KafkaAddress, topics: Topics, *records: BudgetRecord | bytes) -> None:
    async with address.producer() as producer:
        for record in records:
            value = record if isinstance(record, bytes) else encode(record)
            await producer.send_and_wait(topics.budget, value, partition=0)


def asked(id: str, usd: str, **more: Any) -> Reserved:
    plain: dict[str, Any] = {"units": 0, "for_triage": False, "case_id": "c", "head_id": "h"}
    return Reserved(id=id, effect="search", provider="tavily", usd=Decimal(usd), **{**plain, **more})


def test_the_command_shows_what_is_granted_settled_left_denied_and_alerted(
    run: Run, address: KafkaAddress, made_topics: Topics
) -> None:
    assert "(`newsproof up`)" in run("budget"), "before any worker has started"
    assert json.loads(run("budget", "--json"))["limits"] is None
    limits = LimitsSet(
        monthly_usd=Decimal(3), triage_reserve_usd=Decimal(1), daily_units=1, allow_unpriced=False, by="left",
        doubtful_percent=40, forced_percent=100,
    )  # fmt: skip
    records = (
        limits,
        asked("rumour", "0", units=1, claim_kinds=("doubtful",)),
        asked("other", "0", units=1),
        asked("a", "1.5", units=1, claim_kinds=("forced",), group="desk"),
        Settled(id="a", usd=Decimal("0.5"), by="left"),
        asked("b", "0.25"),
        asked("c", "0.1", units=1),
        asked("d", "9"),
        asked("e", "2.5", for_triage=True),
        b"garbage",
    )
    asyncio.run(written(address, made_topics, *records))
    said = json.loads(run("budget", "--json"))
    assert (said["limits"]["monthly_usd"], said["limits"]["by"]) == ("3", "left")
    general = {name: Decimal(value) for name, value in said["month"]["general"].items()}
    assert general == {
        "limit_usd": 3, "granted_usd": Decimal("0.75"), "settled_usd": Decimal("0.5"),
        "unsettled_usd": Decimal("0.25"), "left_usd": Decimal("2.25"),
    }  # fmt: skip
    assert (said["today"]["units_granted"], said["today"]["units_left"]) == (1, 0)
    assert said["today"]["units_doubtful"] == {"granted": 0, "limit": 0}
    assert said["today"]["units_forced"] == {"granted": 1, "kept": 1}
    [(desk, of_desk)] = said["today"]["sources"].items()
    assert (desk, of_desk["units_granted"], of_desk["units_limit"], Decimal(of_desk["granted_usd"])) == (
        *("desk", 1, 1), Decimal("0.5")
    )  # fmt: skip
    assert said["today"]["denied"] == {"units": 1, "units_doubtful": 1, "units_kept": 1, "money": 2}
    assert [alert["kind"] for alert in said["alerts"]] == ["daily_share"]
    assert (said["unsettled"], said["unreadable_records"]) == (1, 1)
    assert "no room for another triage" in said["news_waits_because"]
    text = run("budget")
    for words in (
        *("1 of 1 tool calls", "2.2500", "1/30", "money 2, units 1, units_doubtful 1"),
        "Sources of desk: 1 of 1 tool calls, 0.5000 of 3.0000 USD; triage: 0.0000 USD.",
        "0 for rumoured or planned claims (at most 0), 1 for hacks",
    ):
        assert words in text


@pytest.mark.parametrize("written_as", ["30", "12.34"])
async def test_the_limits_are_those_of_the_settings_to_the_cent(written_as: str) -> None:
    at = Settings(
        _env_file=None, kafka_bootstrap_servers="x:1", deep_analysis_monthly_budget=float(written_as), worker_slot="left"
    )  # fmt: skip
    limits = budget_of(at, Ending(), Wake())._limits
    assert (limits.monthly_usd, limits.by) == (Decimal(str(float(written_as))), "left")
    assert (limits.daily_units, limits.triage_reserve_usd, limits.allow_unpriced) == (50, Decimal("3.0"), False)
    assert (limits.doubtful_units, limits.forced_units) == (20, 10)
    assert (limits.daily_percent, limits.group_percent, limits.unlisted_percent) == (10, 50, 30)
