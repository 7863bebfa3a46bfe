"""What a case begins with: its signal's summary, once, and every template of who says what in both languages."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from agents.evidence.summary import with_summary
from agents.text.wording import Text
from newsproof.report.case_sentence import NOT_KNOWN, case_sentence
from schemas import events as ev
from schemas.evidence import PageStance, ReadStance
from schemas.news import News
from schemas.signals import SignalEvidence, Stage, Verdict
from tests.newsproof.report.test_narrative import FOUND, NOW, record, reference
from tests.newsproof.signal_samples import signal

OPENED = ev.EventReceived(
    news=News(source="wire", text="USDC falls to 0.90 USD", published_at=NOW, url="https://origin.example/"),
    config_hash="h",
    text_hash="t",
    language="en",
)
CAPITALS = {"speaker": "Kroger", "official": True}


def page(number: int, stance: ReadStance = "supports", **fields: Any) -> dict[str, Any]:
    """A page of the evidence: fields of the reference, and ``said``, those of a critic's word with its quote."""
    return {"number": number, "stance": stance, "source_credibility": "unknown", **fields}


def told_of(
    *pages: dict[str, Any], critic: str | None = "supported", stage: Stage | None = None, newest: Text = NOT_KNOWN, whole: bool = False,
    **of: Any,
) -> Text:  # fmt: skip
    """What follows the summary of a case with these pages; ``whole``: with the summary. ``critic`` None: nobody read them.

    ``newest`` and ``stage``: summary and stage of the newest revision. Other fields are the signal's.
    """
    evidence, references, stances = [], [], []
    for given_of in pages:
        fields = dict(given_of)
        number, stance, said, days = (
            fields.pop("number"),
            fields.pop("stance"),
            fields.pop("said", {}),
            fields.pop("days", 1),
        )
        dated = None if days is None else NOW - timedelta(days=days)
        figure, claimed = fields.pop("figures", (None, None))
        quote = None if critic is None or stance == "unrelated" else "these words"
        references.append(reference(number, published_at=dated, stance="supports", **fields))
        stances.append(PageStance(reference_number=number, stance=stance, quote=quote, **said))
        evidence.append(
            SignalEvidence(
                url=fields.get("url", references[-1].url), hash="h", stance=stance, reference_number=number,
                official=fields.get("official", False), published_at=dated, quote=quote,
                figure=figure, claimed=claimed,
            )
        )  # fmt: skip
    of.setdefault("supporting_sources", len([p for p in pages if p["stance"] == "supports"]))
    unquoted = tuple(of.pop("unquoted", ()))
    decided = with_summary(signal(evidence=tuple(evidence), **({"claim_en": "it is so", "claim_zh": "此事属实"} | of)))
    searched = ev.SearchCompleted(
        round=1, findings=replace(FOUND, references=tuple(references)), outcomes=(), route="critique"
    )
    read = ev.EvidenceCritiqued(
        claims=(),
        verdict=critic or "not_enough_evidence",
        stances=None if critic is None else tuple(stances),
        unquoted=unquoted,
    )  # type: ignore[arg-type]
    events = [OPENED, searched, read, ev.SignalSynthesized(signal=decided, path="deep")]
    said = case_sentence([record(event, n) for n, event in enumerate(events)], newest, stage)
    begun = newest or Text(decided.summary_en or "", decided.summary_zh or "")
    assert (said.en.startswith(f"{begun.en}.") and said.zh.startswith(f"{begun.zh}。")) or decided.claim_en is UNSET
    return said if whole else Text(said.en.removeprefix(f"{begun.en}. "), said.zh.removeprefix(f"{begun.zh}。"))


PARTY, CITES = {"speaks_for": "party", "cites": "Kroger spokeswoman"}, {"cites": "The release"}
"""What a critic may say of a page: whose word it is, and whom it names as its source."""
SENTENCES: list[tuple[str, Text, str, str]] = [
    ("own page", told_of(page(2, **CAPITALS), page(1)), "Kroger's own page says so [2]; 1 other page says so [1].", "Kroger 自己的网页这样说 [2]；另有 1 个网页这样说 [1]。"),
    ("own pages", told_of(page(1, **CAPITALS), page(2, **CAPITALS), supporting_sources=1), "Kroger's own pages say so [1][2].", "Kroger 自己的网页这样说 [1][2]。"),
    ("two own pages", told_of(page(1, **CAPITALS), page(2, speaker="SEC", official=True)), "Pages of Kroger and SEC say so [1][2].", "Kroger与SEC 自己的网页这样说 [1][2]。"),
    ("official without a name", told_of(page(1, official=True)), "An official page says so [1].", "官方网页这样说 [1]。"),
    ("heard", told_of(page(1, said=PARTY)), "The party itself (Kroger spokeswoman) says so, as [1] reports.", "据 [1]，当事方（Kroger spokeswoman）这样说。"),
    ("sources", told_of(*(page(n, source_credibility="high" if n < 3 else "low") for n in (1, 2, 3, 4)), supporting_sources=3), "4 pages say so [1][2][3][4], 2 of them established; all pages that say so count as 3 sources.", "4 个网页这样说 [1][2][3][4]，其中 2 个可信；这样说的共计 3 个信源。"),
    ("many", told_of(*(page(n, source_credibility="high") for n in range(1, 13))), "12 established pages say so [1][2][3][4][5] and 7 more.", "12 个可信网页这样说 [1][2][3][4][5] 等。"),
    ("weak denial", told_of(page(1, **CAPITALS), page(3, "denies")), "Kroger's own page says so [1]; 1 unofficial page denies it [3].", "Kroger 自己的网页这样说 [1]；1 个非官方网页予以否认 [3]。"),
    ("origin", told_of(page(1, **CAPITALS), page(2, url="https://origin.example/"), supporting_sources=1), "Kroger's own page says so [1].", "Kroger 自己的网页这样说 [1]。"),
    ("likely", told_of(page(1, source_credibility="high"), page(2, "hedges"), verdict="likely"), "1 established page says so [1]; 1 page does not vouch for it [2]; no official page among them.", "1 个可信网页这样说 [1]；1 个网页未予肯定 [2]；其中没有官方网页。"),
    ("likely, heard", told_of(page(1, source_credibility="high", said=PARTY), verdict="likely"), "1 established page says so [1].", "1 个可信网页这样说 [1]。"),
    ("undated", told_of(page(1, days=None, **CAPITALS), verdict="likely"), "Kroger's own page says so [1]; the publication time is not known.", "Kroger 自己的网页这样说 [1]；其发布时间不详。"),
    ("critic unsure", told_of(page(1, **CAPITALS), critic="not_enough_evidence", verdict="likely"), "Kroger's own page says so [1]; the critic finds not enough evidence either way.", "Kroger 自己的网页这样说 [1]；核查模型认为正反证据都不足。"),
    ("quotes failed", told_of(page(1, **CAPITALS), page(2), page(4), verdict="likely", risk_flags=("quotes_failed", "partly_refuted"), unquoted=(2, 4)), "Kroger's own page says so [1]; 2 other pages say so [2][4]; 2 quotes of the critic are not on the page [2][4]; part of it is refuted.", "Kroger 自己的网页这样说 [1]；另有 2 个网页这样说 [2][4]；核查模型的 2 处引文不在网页上 [2][4]；部分内容被否认。"),
    ("nobody read", told_of(page(1, **CAPITALS), critic=None, verdict="likely"), "Kroger's own page says so [1]; no critic read the pages.", "Kroger 自己的网页这样说 [1]；没有模型阅读这些网页。"),
    ("nothing found", told_of(verdict="unconfirmed", provider_mode="live"), "No page found says so.", "所找到的网页都没有这样说。"),
    ("nothing in the corpus", told_of(page(1, "unrelated"), critic=None, verdict="unconfirmed", provider_mode="offline"), "The bundled corpus has nothing on this.", "内置语料库中没有与此事相关的资料。"),
    ("amount", told_of(page(1, "hedges", said={"amount": "differs"}), page(2), verdict="unconfirmed", risk_flags=("amount_differs",)), "1 page says so [2]; no official page among them; 1 page gives a different amount [1].", "1 个网页这样说 [2]；其中没有官方网页；1 个网页给出的金额不同 [1]。"),
    ("own amount", told_of(page(1, "hedges", figures=(3e6, 3e8), **CAPITALS), page(2, "hedges", figures=(2.5e6, 3e8), said={"amount": "differs"}), verdict="unconfirmed", risk_flags=("amount_differs",)), "The event is reported with a different amount; Kroger's own page reports 3 million, not 300 million [1]; 1 page reports 2.5 million, not 300 million [2].", "事件有报道，但金额不同；Kroger 自己的网页给出的金额是 300 万，而非 3 亿 [1]；1 个网页给出的金额是 250 万，而非 3 亿 [2]。"),
    ("confirmed with another amount", told_of(page(1, **CAPITALS), page(2, "hedges", figures=(14600.0, 5000.0))), "Kroger's own page says so [1]; 1 page reports 14,600, not 5,000 [2].", "Kroger 自己的网页这样说 [1]；1 个网页给出的金额是 1.46 万，而非 5,000 [2]。"),
    ("stale", told_of(page(1, days=40), page(2, days=50), verdict="stale"), "2 pages that say so are all older than 30 days [1][2].", "这样说的 2 个网页都早于 30 天前 [1][2]。"),
    ("earlier", told_of(page(1, "earlier"), page(2, days=None), verdict="stale"), "1 page reports an earlier event of the same kind [1]; no page is known to say so within 30 days.", "1 个网页讲的是更早的同类事件 [1]；未见 30 天内的网页这样说。"),
    ("disputed", told_of(page(1, "denies"), page(2), page(3), verdict="disputed"), "1 unofficial page denies it [1]; 2 pages say so [2][3].", "1 个非官方网页予以否认 [1]；2 个网页这样说 [2][3]。"),
    ("official against official", told_of(page(1, "denies", speaker="SEC", official=True), page(2, **CAPITALS), verdict="disputed"), "SEC's own page denies it [1]; Kroger's own page says so [2].", "SEC 自己的网页予以否认 [1]；Kroger 自己的网页这样说 [2]。"),
    ("critic conflicting", told_of(page(2), critic="conflicting", verdict="disputed"), "The critic finds that sources contradict each other; 1 page says so [2].", "核查模型认为信源互相矛盾；1 个网页这样说 [2]。"),
    ("critic against", told_of(page(2), critic="refuted", verdict="disputed"), "The critic finds that the evidence contradicts it; 1 page says so [2].", "核查模型认为证据与之相反；1 个网页这样说 [2]。"),
    ("refuted", told_of(page(2, "denies", **CAPITALS), page(1, said=CITES), page(3, "hedges", said=CITES), verdict="refuted"), "Kroger's own page denies it [2]; 1 page still says so [1]; [1][3] cite the same source, “The release”.", "Kroger 自己的网页予以否认 [2]；仍有 1 个网页这样说 [1]；[1][3] 引自同一信源“The release”。"),
    ("reported denial", told_of(page(1, "denies", said={"speaks_for": "authority"}), page(2, "denies", said={"speaks_for": "authority"}), verdict="refuted"), "An authority denies it, as [1][2] report.", "据 [1][2]，主管机构予以否认。"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "en", "zh"), [one[1:] for one in SENTENCES], ids=[one[0] for one in SENTENCES])
def test_a_case_begins_with_what_became_of_it_and_who_says_what(said: Text, en: str, zh: str) -> None:
    assert (said.en, said.zh) == (en, zh)


def test_the_summary_stands_first_and_once_whatever_became_of_the_signal() -> None:
    own = page(1, **CAPITALS)
    said = told_of(own, whole=True)
    assert said == Text(
        "Confirmed by 1 source: it is so. Kroger's own page says so [1].",
        "已获 1 个来源证实：此事属实。Kroger 自己的网页这样说 [1]。",
    )
    gate = told_of(verdict="unchecked", unchecked_reason="gate", whole=True)
    assert gate.zh == "未核查（常规消息，不作核查）：有消息称此事属实。"
    newest = Text("Retracted, denied by SEC: claim that it is so", "已撤回，SEC 否认：有消息称此事属实")
    gone = told_of(own, stage="retracted", newest=newest, whole=True)
    assert gone.en == f"{newest.en}. Before that: Kroger's own page says so [1]."
    assert gone.zh == f"{newest.zh}。此前：Kroger 自己的网页这样说 [1]。"


def test_a_signal_of_older_code_is_told_by_its_verdict_and_never_by_its_claim() -> None:
    old = {"claim_en": UNSET, "claim_zh": UNSET, "summary_en": "It is so", "asset": "BTC", "event_type": "hack"}
    none = told_of(verdict=None, whole=True, **old)
    assert none == Text("Not checked: claim about BTC (hack).", "未核查：关于 BTC 的攻击消息。")
    refuted = told_of(page(1, "denies"), verdict="refuted", whole=True, **old)
    assert refuted.en == "Refuted (denied by 1 page): claim about BTC (hack). 1 unofficial page denies it [1]."
    gone = told_of(page(1, **CAPITALS), stage="retracted", newest=Text("It is so", ""), whole=True, **old)
    assert gone.en.startswith("Retracted, denied by a later report: claim about BTC (hack). Before that: ")


@pytest.mark.parametrize(
    ("events", "en", "zh"),
    [
        ([], "Open: no decision yet.", "处理中：尚无结论。"),
        ([ev.CaseDropped(reason="duplicate", detail="", duplicate_of="c-1")], "Dropped: case c-1 has the same text.", "已舍弃：与案例 c-1 正文相同。"),
        ([ev.CaseDropped(reason="spam", detail="")], "Dropped: it is advertising or makes no claim.", "已舍弃：属于广告，或没有可核查的说法。"),
        ([ev.CaseFailed(reason="cancelled by me: test", failed_step="", attempts=0)], "Ended by request, without a signal.", "应要求结束，没有信号。"),
        ([ev.CaseFailed(reason="deadline", failed_step="triage", attempts=1)], "Failed, without a signal: triage failed in 1 attempt.", "失败，没有信号：“初判”尝试 1 次未成功。"),
    ],
)  # fmt: skip
def test_a_case_without_a_signal_begins_with_how_it_stands(events: list[ev.Event], en: str, zh: str) -> None:
    said = case_sentence([record(event, n) for n, event in enumerate([OPENED, *events])])
    assert (said.en, said.zh) == (en, zh)


_PAGES = st.lists(
    st.builds(
        page,
        st.integers(1, 14),
        st.sampled_from(get_args(ReadStance)),
        official=st.booleans(),
        speaker=st.sampled_from([None, "Kroger", "SEC"]),
        days=st.sampled_from([None, 1, 40]),
        source_credibility=st.sampled_from(["high", "unknown"]),
        said=st.sampled_from([{}, PARTY, CITES, {"amount": "differs"}]),
    ),
    max_size=9,
    unique_by=lambda p: p["number"],
)


@settings(max_examples=300, deadline=None)
@given(
    _PAGES,
    st.sampled_from([None, *get_args(Verdict)]),
    st.sampled_from([None, "gate", "budget", "search_failed:network", "unheard_of"]),
    st.sets(st.sampled_from(["quotes_failed", "partly_refuted", "amount_differs", "weak_denial"])),
    st.sampled_from([None, "supported", "refuted", "conflicting", "not_enough_evidence"]),
)
def test_a_case_names_its_own_references_alone_and_the_same_ones_in_both_languages(
    pages: list[dict[str, Any]], verdict: Verdict | None, why: str | None, flags: set[str], critic: str | None
) -> None:
    reason = why if verdict == "unchecked" else None
    said = told_of(
        *pages, critic=critic, verdict=verdict, unchecked_reason=reason, risk_flags=tuple(flags), unquoted=(1,)
    )
    for text in (said.en, said.zh):
        assert "{" not in text and "；；" not in text and "。。" not in text
    # Every reference that is named is one of the case, in both languages the same.
    named = sorted(re.findall(r"\[(\d+)\]", said.en))
    assert set(map(int, named)) <= {p["number"] for p in pages} | {1}
    assert named == sorted(re.findall(r"\[(\d+)\]", said.zh))
