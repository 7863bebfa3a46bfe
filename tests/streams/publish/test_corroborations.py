"""Publish and a story's other reports: they raise the first one's signal, once, or supersede it; the audit finds every revision."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from agents.evidence.summary import with_summary
from schemas import events as ev
from schemas.calibration import SignalCalibration
from schemas.envelope import Envelope
from schemas.ids import LIVE_RUN, event_id, uuid5
from schemas.signals import SignalEvidence
from streams.audit.audit import audit
from streams.journal.log import KafkaLog
from streams.publish.publisher import _record
from streams.publish.revisions import revised_by, withdrawn
from tests.newsproof.signal_samples import FIRST, signal
from tests.schemas.write_golden import NOW
from tests.streams.publish.test_publisher import signals_reach
from tests.streams.publish.test_retractions import Written, denial, revisions, verdicts
from tests.streams.world import World

PAGE = SignalEvidence(
    url="https://desk.example/hack", hash="h", stance="supports", reference_number=1, independent=True
)
UNCONFIRMED: dict[str, Any] = {
    "verdict": "unconfirmed", "action": "observe", "confidence": 0.45, "preliminary_confidence": 0.6, "evidence": (),
    "supporting_sources": 0, "independent_sources": 0, "risk_flags": ("offline", "data_incomplete"),
    "asset": "ETH", "direction": "long",
}  # fmt: skip


def telling(signal_id: str, case: str, **changes: Any) -> ev.StoryCorroborated:
    plain = ev.StoryCorroborated(
        signal_id=signal_id, of_case=case, verdict="likely", amount=-0.075, action="buy", direction="long",
        supporting_sources=2, independent_sources=2, reason="另有 2 个来源报道了同一事件", evidence=(PAGE,),
        asset="ETH",
    )  # fmt: skip
    return replace(plain, **changes)


async def test_other_owners_raise_the_first_ones_signal_once_and_a_retraction_still_ends_it(world: World) -> None:
    first = Written(world, 1)
    begun = with_summary(first.signal(**UNCONFIRMED, claim_en="it happened", claim_zh="确有其事"))
    await (await first.open()).go(ev.SignalSynthesized(signal=begun, path="deep"))
    told = telling(first.signal_id, first.case_id)
    for number in (2, 3):
        await (await Written(world, number).open()).go(
            told, ev.CaseDropped(reason="same_story", detail="", duplicate_of=first.case_id)
        )
    async with world.publishing():
        await signals_reach(world, 2)
        await (await (await Written(world, 4).open()).go(denial(first))).end()
        await signals_reach(world, 4)
    assert await revisions(world, first) == ["final", "final", "retracted"]
    assert [verdict for verdict, _ in await verdicts(world, first)] == ["unconfirmed", "likely", "refuted"]
    assert [s.summary for s in await world.signals() if s.signal_id == first.signal_id] == [
        "未证实：有消息称确有其事", "很可能（2 个来源）：确有其事", "已撤回，后续消息否认：有消息称确有其事"
    ]  # fmt: skip
    report = await audit(KafkaLog(world.address), world.topics)
    assert (report.signals, report.forged, report.overstated, report.clean) == (2, (), (), True)


def test_the_revision_says_what_changed_and_why() -> None:
    last = replace(signal("s"), notes="n", language="zh", **UNCONFIRMED)
    new = revised_by(last, telling(last.signal_id, last.case_id), NOW)
    assert new is not None
    assert (new.stage, new.verdict, new.action, new.confidence) == ("final", "likely", "buy", 0.525)
    assert (new.supporting_sources, new.links, new.risk_flags) == (2, (PAGE.url,), ("offline",))
    assert new.notes == "另有 2 个来源报道了同一事件. n" and new.decided_at == NOW
    assert (new.adjustments[-1].rule, new.adjustments[-1].amount) == ("corroborated", 0.075)


@pytest.mark.parametrize(
    "changes",
    [{"verdict": "refuted"}, {"verdict": "disputed"}, {"verdict": "stale"}, {"verdict": "likely"}, {"verdict": None},
     {"stage": "retracted"}, dict(FIRST)],
    ids=str,
)  # fmt: skip
def test_nothing_else_is_raised_and_nothing_is_taken_back(changes: dict[str, Any]) -> None:
    last = replace(signal("s"), **(UNCONFIRMED | changes))
    assert revised_by(last, telling("", ""), NOW) is None


@pytest.mark.security
@pytest.mark.parametrize(
    "changes", [{"asset": "DOGE"}, {"direction": "short"}, {"direction": "neutral"}, {"asset": "UNKNOWN"}], ids=str
)
def test_another_asset_or_direction_raises_nothing(changes: dict[str, Any]) -> None:
    """“Circle launches Arc” gave a signal to buy DOGE: what another order corroborates is another claim."""
    last = replace(signal("s"), **UNCONFIRMED)
    assert revised_by(last, telling("", "", **changes), NOW) is None


@pytest.mark.security
async def test_the_audit_refuses_a_corroboration_that_does_not_fit(world: World) -> None:
    first = Written(world, 1)
    end = ev.SignalSynthesized(signal=first.signal(**UNCONFIRMED), path="deep")
    await (await first.open()).go(end)
    odd = telling(first.signal_id, first.case_id, asset="DOGE")
    witness = await Written(world, 2).open()
    await witness.go(odd, ev.CaseDropped(reason="same_story", detail="", duplicate_of=first.case_id))
    async with world.publishing():
        await signals_reach(world, 1)
        await (await Written(world, 3).open()).end()
        await signals_reach(world, 2)
    assert await revisions(world, first) == ["final"]
    report = await audit(KafkaLog(world.address), world.topics)
    assert report.clean
    # A publisher that raises it all the same is found out.
    raised = revised_by(first.signal(**UNCONFIRMED), replace(odd, asset="ETH"), NOW)
    assert raised is not None
    env = Envelope(
        id=event_id(LIVE_RUN, witness.case_id, uuid5("opening", LIVE_RUN, witness.case_id)), type="", time=NOW,
        case_id=witness.case_id, causation_id=None, run_id=LIVE_RUN,
    )  # fmt: skip
    record = _record(
        replace(raised, revision=2, supersedes=1), env, world.topics.cases, witness.partition, witness.offset + 1
    )
    async with world.address.producer() as producer:
        await producer.send_and_wait(world.topics.signals, **record)
    report = await audit(KafkaLog(world.address), world.topics)
    assert report.forged_signals == 1


@pytest.mark.parametrize(("live", "flags"), [(True, ("offline",)), (False, ("offline", "late"))])
def test_a_live_report_alone_lifts_the_flag_late(live: bool, flags: tuple[str, ...]) -> None:
    last = replace(signal("s"), **(UNCONFIRMED | {"risk_flags": ("offline", "late")}))
    raised = revised_by(last, telling("", "", live=live), NOW)
    assert raised is not None and raised.risk_flags == flags
    likely = replace(last, verdict="likely", action="buy")
    same = revised_by(likely, telling("", "", live=live), NOW)
    if not live:
        assert same is None
    else:
        assert same is not None and same.risk_flags == flags
        assert (same.verdict, same.action, same.confidence) == ("likely", "buy", likely.confidence)
        assert same.adjustments[-1].rule == "corroborated", "the audit derives it again"


def superseding(target: Written, verdict: Any, **changes: Any) -> ev.RetractionFound:
    rival = ev.Rival(verdict=verdict, **changes)
    return denial(target, kind="superseded", rival=rival, reason="a better-founded report of the same event")


AT_ONCE: list[tuple[Any, Any, tuple[list[str], list[str]]]] = [
    # (verdict of the earlier case, of the later one, None where it ends without a signal; stages of both signals)
    ("unconfirmed", "confirmed", (["final", "superseded"], ["final"])),
    ("unconfirmed", "unconfirmed", (["final"], ["final"])),
    ("confirmed", "likely", (["final"], ["final"])),
    ("likely", "likely", (["final"], ["final", "superseded"])),
    ("confirmed", "unconfirmed", (["final"], ["final", "superseded"])),
    ("unconfirmed", None, (["final"], [])),
]


async def test_of_two_cases_of_one_event_that_run_at_once_one_better_founded_signal_stays(world: World) -> None:
    """The earlier case ends after the later one has been judged, so nobody could compare them but publish."""
    pairs = []
    for number, (_, later, _) in enumerate(AT_ONCE):
        first, second = [await Written(world, 2 * number + n).open() for n in range(2)]
        end: ev.Event = ev.CaseFailed(reason="r", failed_step="synthesize", attempts=3)
        if later is not None:
            end = ev.SignalSynthesized(signal=second.signal(verdict=later), path="deep")
        await second.go(superseding(first, later or "confirmed", same_slots=True), end)
        pairs.append((first, second))
    async with world.publishing():
        await signals_reach(world, 5)
        for (first, _), (earlier, _, _) in zip(pairs, AT_ONCE, strict=True):
            await first.go(ev.SignalSynthesized(signal=first.signal(verdict=earlier), path="deep"))
        await signals_reach(world, sum(len(of) for *_, stages in AT_ONCE for of in stages))
    found = [(await revisions(world, first), await revisions(world, second)) for first, second in pairs]
    assert found == [stages for *_, stages in AT_ONCE]
    report = await audit(KafkaLog(world.address), world.topics)
    assert report.forged == () and not report.duplicate_signals


def test_an_event_that_says_less_or_more_than_tellings_can_raises_nothing() -> None:
    last = replace(signal("s"), **UNCONFIRMED)
    assert revised_by(last, telling("", "", verdict="refuted"), NOW) is None
    bold = revised_by(last, telling("", "", amount=5.0), NOW)
    assert bold is not None and bold.confidence == 0.85, "the verdict's cap holds whatever the event says"


CLAIM = {"claim_en": "it happened", "claim_zh": "确有其事"}


def denied_by(speaker: str | None) -> ev.RetractionFound:
    page = replace(PAGE, stance="denies", official=True, speaker=speaker)
    return ev.RetractionFound(signal_id="", of_case="", kind="retracted", reason="no", evidence=(page,))


@pytest.mark.security
@pytest.mark.parametrize(
    ("event", "begins", "en", "zh"),
    [
        (telling("", ""), UNCONFIRMED, "Likely (2 sources): it happened", "很可能（2 个来源）：确有其事"),
        (telling("", "", verdict="confirmed", evidence=(replace(PAGE, official=True, speaker="Walmart"),)), UNCONFIRMED, "Confirmed by Walmart: it happened", "已获 Walmart 证实：确有其事"),
        (denied_by("Walmart"), {}, "Retracted, denied by Walmart: claim that it happened", "已撤回，Walmart 否认：有消息称确有其事"),
        (denied_by(None), {}, "Retracted, denied by a later report: claim that it happened", "已撤回，后续消息否认：有消息称确有其事"),
        (replace(denied_by("Walmart"), kind="superseded"), {}, "Superseded by another report: claim that it happened", "已被另一报道取代：有消息称确有其事"),
        (ev.CaseDropped(reason="spam", detail=""), FIRST, "Retracted before it was checked: claim that it happened", "已撤回，未完成核查：有消息称确有其事"),
        (ev.CaseFailed(reason="r", failed_step="plan", attempts=1), FIRST, "Retracted before it was checked: claim that it happened", "已撤回，未完成核查：有消息称确有其事"),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, ev.Event) else None,
)  # fmt: skip
def test_the_summary_of_a_revision_is_what_the_revision_says(
    event: Any, begins: dict[str, Any], en: str, zh: str
) -> None:
    for language in ("en", "zh"):
        last = with_summary(signal("s", language=language, **(CLAIM | begins)))
        assert last.summary not in (en, zh)
        new = revised_by(last, event, NOW)
        assert new is not None
        assert (new.summary_en, new.summary_zh, new.summary) == (en, zh, en if language == "en" else zh)
        old = replace(last, claim_en=UNSET, claim_zh=UNSET, summary="it happened")
        before = revised_by(old, event, NOW)
        assert before is not None and before.summary == "it happened", "older revisions must not look forged"


def test_one_other_source_alone_is_thin_evidence() -> None:
    one = revised_by(signal("s", **UNCONFIRMED), telling("", "", supporting_sources=1), NOW)
    assert one is not None and "data_incomplete" in one.risk_flags


CALIBRATED = SignalCalibration(
    id="m", method="platt_identity_prior", target="moved:86400", n_stories=60, low=0.4, high=0.6, p_true=None
)


@pytest.mark.parametrize(
    ("before", "after"), [(UNSET, UNSET), (None, None), (CALIBRATED, None)], ids=["older code", "no map", "a map"]
)
def test_a_derived_revision_has_no_calibration_and_one_of_older_code_keeps_its_shape(before: Any, after: Any) -> None:
    last = replace(signal("s", calibration=before, confidence_calibrated=0.5 if before else None), **UNCONFIRMED)
    raised = revised_by(last, telling(last.signal_id, last.case_id), NOW)
    gone = withdrawn(
        last, ev.RetractionFound(signal_id="", of_case="", kind="retracted", reason="no", evidence=()), NOW
    )
    for new in (raised, gone):
        assert new is not None and new.confidence_calibrated is None and new.calibration is after
    late = replace(last, verdict="likely", risk_flags=("late",))
    live = revised_by(late, telling("", "", live=True), NOW)
    assert live is not None and live.calibration is before, "its confidence stays"


@pytest.mark.parametrize(("sell_from", "action"), [(None, "buy"), (0.525, "buy"), (0.53, "observe")])
def test_the_selling_rule_holds_for_an_order_that_other_reports_would_give(
    sell_from: float | None, action: str
) -> None:
    last = replace(signal("s"), language="en", **UNCONFIRMED)
    new = revised_by(last, telling("", "", sell_from=sell_from, reason="r"), NOW)
    assert new is not None
    assert (new.verdict, new.action, new.confidence) == ("likely", action, 0.525)
    ruled_out = action == "observe"
    assert ("below_selling_rule" in new.risk_flags) is ruled_out
    said = "; confidence 0.525 is below the selling rule's 0.53, so there is no order" if ruled_out else ""
    assert new.notes == f"r{said}"
    again = replace(telling("", ""), verdict="confirmed", amount=0.2)
    raised = revised_by(new, again, NOW)
    assert raised is not None and raised.action == "buy" and "below_selling_rule" not in raised.risk_flags
