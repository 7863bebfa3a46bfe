"""The sentence of a case: every template once in both languages, and no verdict's words for another verdict."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agents.text.wording import Told
from newsproof.report.case_sentence import HEADS, UNCHECKED, case_sentence
from schemas import events as ev
from schemas.evidence import MarketValue, PageStance, ReadStance
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
    *pages: dict[str, Any], critic: str | None = "supported", stage: Stage | None = None, market: Any = (), **of: Any
) -> Told:
    """The sentence of a case with these pages; ``critic`` None: nobody read them. Other fields are the signal's."""
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
        quote = None if critic is None or stance == "unrelated" else "these words"
        references.append(reference(number, published_at=dated, stance="supports", **fields))
        stances.append(PageStance(reference_number=number, stance=stance, quote=quote, **said))
        evidence.append(
            SignalEvidence(
                url=fields.get("url", references[-1].url), hash="h", stance=stance, reference_number=number,
                official=fields.get("official", False), published_at=dated, quote=quote,
            )
        )  # fmt: skip
    of.setdefault("supporting_sources", len([p for p in pages if p["stance"] == "supports"]))
    unquoted = tuple(of.pop("unquoted", ()))
    decided = signal(evidence=tuple(evidence), **of)
    searched = ev.SearchCompleted(
        round=1, findings=replace(FOUND, references=tuple(references)), outcomes=(), market=market, route="critique"
    )
    read = ev.EvidenceCritiqued(
        claims=(),
        verdict=critic or "not_enough_evidence",
        stances=None if critic is None else tuple(stances),
        unquoted=unquoted,
    )  # type: ignore[arg-type]
    events = [OPENED, searched, read, ev.SignalSynthesized(signal=decided, path="deep")]
    return case_sentence([record(event, n) for n, event in enumerate(events)], stage)


def price(venue: str, value: float, name: str = "price") -> MarketValue:
    return MarketValue(name=name, value=value, unit="USD", source=venue, observed_at=NOW)


PEG = {"event_type": "depeg", "asset": "USDC"}
STILL = [price("a", 1.0, "price_low_2h"), price("a", 1.0, "price_high_2h"), price("a", 24.0, "candles_2h")]
PARTY, CITES = {"speaks_for": "party", "cites": "Kroger spokeswoman"}, {"cites": "The release"}
"""What a critic may say of a page: whose word it is, and whom it names as its source."""
SENTENCES: list[tuple[str, Told, str, str]] = [
    ("own page", told_of(page(2, **CAPITALS), page(1)), "Confirmed: Kroger's own page says so [2]; 1 other page says so [1].", "已证实：Kroger 自己的网页这样说 [2]；另有 1 个网页这样说 [1]。"),
    ("own pages", told_of(page(1, **CAPITALS), page(2, **CAPITALS), supporting_sources=1), "Confirmed: Kroger's own pages say so [1][2].", "已证实：Kroger 自己的网页这样说 [1][2]。"),
    ("two own pages", told_of(page(1, **CAPITALS), page(2, speaker="SEC", official=True)), "Confirmed: pages of Kroger and SEC say so [1][2].", "已证实：Kroger与SEC 自己的网页这样说 [1][2]。"),
    ("official without a name", told_of(page(1, official=True)), "Confirmed: an official page says so [1].", "已证实：官方网页这样说 [1]。"),
    ("heard", told_of(page(1, said=PARTY)), "Confirmed: the party itself (Kroger spokeswoman) says so, by what [1] reports.", "已证实：据 [1]，当事方（Kroger spokeswoman）这样说。"),
    ("sources", told_of(*(page(n, source_credibility="high" if n < 3 else "low") for n in (1, 2, 3, 4)), supporting_sources=3), "Confirmed: 4 pages say so [1][2][3][4], 2 of them established; all that say so count as 3 sources.", "已证实：4 个网页这样说 [1][2][3][4]，其中 2 个可信；这样说的共计 3 个来源。"),
    ("many", told_of(*(page(n, source_credibility="high") for n in range(1, 13))), "Confirmed: 12 established pages say so [1][2][3][4][5] and 7 more.", "已证实：12 个可信网页这样说 [1][2][3][4][5] 等。"),
    ("measured", told_of(market=[price("a", 0.9), price("b", 0.91)], **PEG), "Confirmed: prices measured at two venues or more bear it out.", "已证实：两个以上市场的实测价格与之相符。"),
    ("weak denial", told_of(page(1, **CAPITALS), page(3, "denies")), "Confirmed: Kroger's own page says so [1]; 1 unofficial page denies it [3].", "已证实：Kroger 自己的网页这样说 [1]；1 个非官方网页予以否认 [3]。"),
    ("origin", told_of(page(1, **CAPITALS), page(2, url="https://origin.example/"), supporting_sources=1), "Confirmed: Kroger's own page says so [1].", "已证实：Kroger 自己的网页这样说 [1]。"),
    ("likely", told_of(page(1, source_credibility="high"), page(2, "hedges"), verdict="likely"), "Likely: 1 established page says so [1]; 1 page does not vouch for it [2]; no official page among them.", "很可能：1 个可信网页这样说 [1]；1 个网页未予肯定 [2]；其中没有官方网页。"),
    ("likely, heard", told_of(page(1, source_credibility="high", said=PARTY), verdict="likely"), "Likely: 1 established page says so [1].", "很可能：1 个可信网页这样说 [1]。"),
    ("undated", told_of(page(1, days=None, **CAPITALS), verdict="likely"), "Likely: Kroger's own page says so [1]; when it says so is not known.", "很可能：Kroger 自己的网页这样说 [1]；其发布时间不详。"),
    ("critic unsure", told_of(page(1, **CAPITALS), critic="not_enough_evidence", verdict="likely"), "Likely: Kroger's own page says so [1]; the critic finds not enough evidence either way.", "很可能：Kroger 自己的网页这样说 [1]；核查模型认为正反证据都不足。"),
    ("quotes failed", told_of(page(1, **CAPITALS), page(2), page(4), verdict="likely", risk_flags=("quotes_failed", "partly_refuted"), unquoted=(2, 4)), "Likely: Kroger's own page says so [1]; 2 other pages say so [2][4]; 2 quotes of the critic are not on the page [2][4]; a part of it is refuted.", "很可能：Kroger 自己的网页这样说 [1]；另有 2 个网页这样说 [2][4]；核查模型的 2 处引文不在网页上 [2][4]；部分内容被否认。"),
    ("nobody read", told_of(page(1, **CAPITALS), critic=None, verdict="likely"), "Likely: Kroger's own page says so [1]; no critic read the pages.", "很可能：Kroger 自己的网页这样说 [1]；没有模型阅读这些网页。"),
    ("nothing found", told_of(verdict="unconfirmed"), "Unconfirmed: no page that was found says so.", "未证实：所找到的网页都没有这样说。"),
    ("amount", told_of(page(1, "hedges", said={"amount": "differs"}), page(2), verdict="unconfirmed", risk_flags=("amount_differs",)), "Unconfirmed: 1 page says so [2]; no official page among them; 1 page gives another amount [1].", "未证实：1 个网页这样说 [2]；其中没有官方网页；1 个网页给出的金额不同 [1]。"),
    ("stale", told_of(page(1, days=40), page(2, days=50), verdict="stale"), "Old news: 2 pages that say so are all older than 30 days [1][2].", "旧闻：这样说的 2 个网页都早于 30 天前 [1][2]。"),
    ("earlier", told_of(page(1, "earlier"), page(2, days=None), verdict="stale"), "Old news: 1 page tells the same story of an earlier event [1]; no page is known to say so within 30 days.", "旧闻：1 个网页讲的是更早的同类事件 [1]；未见 30 天内的网页这样说。"),
    ("disputed", told_of(page(1, "denies"), page(2), page(3), verdict="disputed"), "Disputed: 1 unofficial page denies it [1]; 2 pages say so [2][3].", "有争议：1 个非官方网页予以否认 [1]；2 个网页这样说 [2][3]。"),
    ("official against official", told_of(page(1, "denies", speaker="SEC", official=True), page(2, **CAPITALS), verdict="disputed"), "Disputed: SEC's own page denies it [1]; Kroger's own page says so [2].", "有争议：SEC 自己的网页予以否认 [1]；Kroger 自己的网页这样说 [2]。"),
    ("critic conflicting", told_of(page(2), critic="conflicting", verdict="disputed"), "Disputed: the critic finds that sources contradict each other; 1 page says so [2].", "有争议：核查模型认为来源互相矛盾；1 个网页这样说 [2]。"),
    ("critic against", told_of(page(2), critic="refuted", verdict="disputed"), "Disputed: the critic finds that the evidence speaks against it; 1 page says so [2].", "有争议：核查模型认为证据与之相反；1 个网页这样说 [2]。"),
    ("refuted", told_of(page(2, "denies", **CAPITALS), page(1, said=CITES), page(3, "hedges", said=CITES), verdict="refuted"), "Refuted: Kroger's own page denies it [2]; 1 page says so all the same [1]; [1][3] cite the same source, “The release”.", "被否认：Kroger 自己的网页予以否认 [2]；仍有 1 个网页这样说 [1]；[1][3] 引自同一来源“The release”。"),
    ("reported denial", told_of(page(1, "denies", said={"speaks_for": "authority"}), page(2, "denies", said={"speaks_for": "authority"}), verdict="refuted"), "Refuted: an authority denies it, by what [1][2] report.", "被否认：据 [1][2]，主管机构予以否认。"),
    ("measured against", told_of(market=STILL, verdict="refuted", **PEG), "Refuted: the prices measured over two hours stayed within 0.5 % of the peg.", "被否认：两小时内的实测价格与锚定价相差不超过 0.5%。"),
    ("no verdict", told_of(verdict=None), "No verdict: the rules of before published this.", "无结论：由旧规则发布。"),
    ("retracted", told_of(page(1, **CAPITALS), stage="retracted"), "Retracted: another case has denied it. Before that: Confirmed: Kroger's own page says so [1].", "已撤回：另一案例否认了它。此前：已证实：Kroger 自己的网页这样说 [1]。"),
    ("search failed", told_of(verdict="unchecked", unchecked_reason="search_failed:timeout"), "Not checked: the search failed (timeout).", "未核查：搜索失败（超时）。"),
    ("gate", told_of(verdict="unchecked", unchecked_reason="gate"), "Not checked: news like this does not pass the gate to a check.", "未核查：这样的新闻未达到核查门槛。"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "en", "zh"), [one[1:] for one in SENTENCES], ids=[one[0] for one in SENTENCES])
def test_a_case_begins_with_what_became_of_it_and_who_says_what(said: Told, en: str, zh: str) -> None:
    assert (said.en, said.zh) == (en, zh)


@pytest.mark.parametrize(
    ("events", "en", "zh"),
    [
        ([], "Still open: nothing is decided yet.", "处理中：尚无结论。"),
        ([ev.CaseDropped(reason="duplicate", detail="", duplicate_of="c-1")], "Dropped: the same text came in before, as case c-1.", "已舍弃：同样的正文此前已收到，见案例 c-1。"),
        ([ev.CaseDropped(reason="spam", detail="")], "Dropped: it is advertising, or claims nothing.", "已舍弃：是广告，或没有任何说法。"),
        ([ev.CaseFailed(reason="cancelled by me: test", failed_step="", attempts=0)], "Ended by request, without a signal.", "应要求结束，没有信号。"),
        ([ev.CaseFailed(reason="deadline", failed_step="triage", attempts=1)], "Failed, without a signal: triage did not work in 1 attempt.", "失败，没有信号：“初判”尝试 1 次未成功。"),
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
    st.sampled_from([None, *UNCHECKED, "search_failed:network", "unheard_of"]),
    st.sets(st.sampled_from(["quotes_failed", "partly_refuted", "amount_differs", "weak_denial"])),
    st.sampled_from([None, "supported", "refuted", "conflicting", "not_enough_evidence"]),
)
def test_no_case_is_told_in_the_words_of_another_verdict(
    pages: list[dict[str, Any]], verdict: Verdict | None, why: str | None, flags: set[str], critic: str | None
) -> None:
    reason = why if verdict == "unchecked" else None
    said = told_of(
        *pages, critic=critic, verdict=verdict, unchecked_reason=reason, risk_flags=tuple(flags), unquoted=(1,)
    )
    for text, head in ((said.en, {v: h.en for v, h in HEADS.items()}), (said.zh, {v: h.zh for v, h in HEADS.items()})):
        others = [words for of, words in head.items() if of != verdict]
        assert not text.startswith(tuple(others)), text
        assert not any(f" {words.lower()} " in text.lower() for words in others), text
        assert "{" not in text
        assert "；；" not in text
    if verdict in HEADS:
        assert said.en.startswith(HEADS[verdict].en)
        assert said.zh.startswith(HEADS[verdict].zh)
    # Every reference that is named is one of the case, in both languages the same.
    named = sorted(re.findall(r"\[(\d+)\]", said.en))
    assert set(map(int, named)) <= {p["number"] for p in pages} | {1}
    assert named == sorted(re.findall(r"\[(\d+)\]", said.zh))
