"""The sentence that a case begins with, in English and in Chinese: the verdict, and who says what, by number of reference.

Made by templates from what the log holds of the case. It says what the signal's evidence shows and no more: who is official or
heard is as the rules took it, what counts as one source is the signal's own count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from agents.evidence.claim import Claim
from agents.evidence.hosts import canonical_url
from agents.evidence.measurements import STILL, measured, measurements_of
from agents.evidence.pages import utc
from agents.evidence.policy import VERDICT_EN, VERDICT_ZH
from agents.evidence.verdict import STALE_AFTER, Measured
from newsproof.report.narrative import critique_of, last_findings
from newsproof.report.wording import Told, joined, references, term, told
from schemas import events as ev
from schemas.evidence import PageStance, SearchReference
from schemas.signals import WITHDRAWN, Signal, Stage
from streams.journal.case_reading import JournalRecord

MOST_NAMED = 6
"""References that are named one by one; of more, the number of the others is told."""


class _Page(msgspec.Struct, frozen=True, kw_only=True):
    """One page of the signal's evidence, with what is known of it. ``said`` is None where no critic's word on it counts."""

    number: int
    stance: str
    official: bool
    found: SearchReference | None = None
    said: PageStance | None = None
    age: timedelta | None = None

    @property
    def is_established(self) -> bool:
        return self.found is not None and self.found.source_credibility in {"high", "medium"}

    @property
    def speaks_for(self) -> str:
        """Return party, authority or "": whose word a page reports that is not official itself."""
        heard = self.said is not None and self.said.speaks_for != "other" and not self.official
        return self.said.speaks_for if heard and self.said is not None else ""


class _Facts(msgspec.Struct, frozen=True, kw_only=True):
    """A decided case. ``read``: a critic said what each page says; ``critic``: its verdict."""

    signal: Signal
    pages: tuple[_Page, ...]
    measured: Measured | None
    read: bool
    critic: str
    unquoted: tuple[int, ...]

    def of(self, stance: str) -> list[_Page]:
        return [p for p in self.pages if p.stance == stance]


def case_sentence(records: Sequence[JournalRecord], stage: Stage | None = None) -> Told:
    """Return what became of the case. ``stage``: that of its newest published revision, where it is known."""
    events = [r.event for r in records if r.accepted]
    ended = next((e for e in reversed(events) if isinstance(e, ev.TERMINAL)), None)
    match ended:
        case ev.SignalSynthesized(signal=signal):
            decided = _decided(_facts(records, events, signal))
            return joined((_WITHDRAWN[stage], decided), " ", "") if stage in WITHDRAWN else decided
        case ev.CaseDropped(reason="duplicate", duplicate_of=first) if first:
            return told(
                "Dropped: the same text came in before, as case {case}.",
                "已舍弃：同样的正文此前已收到，见案例 {case}。",
                case=first,
            )
        case ev.CaseDropped(reason=reason):
            return DROPPED[reason]
        case ev.CaseFailed(failed_step=""):
            return Told("Ended by request, without a signal.", "应要求结束，没有信号。")
        case ev.CaseFailed(failed_step=step, attempts=n):
            en, zh = (
                "Failed, without a signal: {step} did not work in {n:attempt|attempts}.",
                "失败，没有信号：“{step}”尝试 {n} 次未成功。",
            )
            return told(en, zh, step=term(step), n=n)
        case _:
            return Told("Still open: nothing is decided yet.", "处理中：尚无结论。")


_WITHDRAWN = {
    "retracted": Told("Retracted: another case has denied it. Before that:", "已撤回：另一案例否认了它。此前："),
    "superseded": Told("Superseded: another case has corrected it. Before that:", "已被取代：另一案例更正了它。此前："),
}
DROPPED = {
    "duplicate": Told("Dropped: the same text came in before.", "已舍弃：同样的正文此前已收到。"),
    "same_story": Told(
        "Dropped: an earlier case tells the same event, and its signal stands for both.",
        "已舍弃：更早的案例讲述了同一事件，以其信号为准。",
    ),
    "unchanged": Told("A second look: the signal stays as it is.", "再次核查：信号维持不变。"),
    "spam": Told("Dropped: it is advertising, or claims nothing.", "已舍弃：是广告，或没有任何说法。"),
    "empty": Told("Dropped: its text holds no word.", "已舍弃：正文没有文字。"),
}
HEADS = {
    "confirmed": Told("Confirmed", "已证实"),
    "likely": Told("Likely", "很可能"),
    "unconfirmed": Told("Unconfirmed", "未证实"),
    "stale": Told("Old news", "旧闻"),
    "disputed": Told("Disputed", "有争议"),
    "refuted": Told("Refuted", "被否认"),
}
SAYS = (Told("says so", "这样说"), Told("say so", "这样说"))
DENIES = (Told("denies it", "予以否认"), Told("deny it", "予以否认"))
UNCHECKED = {
    "preliminary": Told(
        "Not checked yet: this is the first judgement of the news alone.", "尚未核查：这只是对新闻的初判。"
    ),
    "gate": Told(
        "Not checked: news like this does not pass the gate to a check.", "未核查：这样的新闻未达到核查门槛。"
    ),
    "disabled": Told("Not checked: the search is switched off.", "未核查：搜索已关闭。"),
    "not_planned": Told("Not checked: no search was planned.", "未核查：没有安排搜索。"),
    "budget": Told("Not checked: the budget left no room for a search.", "未核查：预算不足以搜索。"),
    "language": Told(
        "Not checked: the search provider of the news' language did not answer.",
        "未核查：新闻所用语言的搜索服务没有响应。",
    ),
    "search_failed": Told("Not checked: the search failed ({why}).", "未核查：搜索失败（{why}）。"),
    "degraded": Told("Not checked: the deep path failed ({why}).", "未核查：深入核查失败（{why}）。"),
}


def _decided(facts: _Facts) -> Told:
    signal = facts.signal
    if signal.verdict is None:
        return Told("No verdict: the rules of before published this.", "无结论：由旧规则发布。")
    if signal.verdict == "unchecked":
        kind, _, why = (signal.unchecked_reason or "").partition(":")
        known = UNCHECKED.get(kind, Told("Not checked.", "未核查。"))
        return told(known.en, known.zh, why=term(why or "unknown"))
    tell = {
        "confirmed": _confirmed,
        "likely": _too_little,
        "unconfirmed": _too_little,
        "stale": _stale,
        "disputed": _disputed,
        "refuted": _refuted,
    }[signal.verdict]
    clauses = list(tell(facts)) or [Told(VERDICT_EN[signal.verdict], VERDICT_ZH[signal.verdict].partition(": ")[2])]
    said = joined((*clauses, *_beside(facts)), "; ", "；")
    return told("{head}: {said}.", "{head}：{said}。", head=HEADS[signal.verdict], said=said)


def _confirmed(facts: _Facts) -> Iterator[Told]:
    if facts.measured == "confirms":
        yield Told("prices measured at two venues or more bear it out", "两个以上市场的实测价格与之相符")
    supports = facts.of("supports")
    official = [p for p in supports if p.official]
    heard = [p for p in supports if p.speaks_for]
    if official:
        yield _own_pages(official, *SAYS)
    elif heard:
        yield _heard(heard, SAYS[0])
    spoken = official or heard
    yield from _sources(facts, [p for p in supports if p not in spoken], beside=bool(spoken))
    yield from _denials(facts.of("denies"))


def _too_little(facts: _Facts) -> Iterator[Told]:
    supports, hedges, denies = (facts.of(stance) for stance in ("supports", "hedges", "denies"))
    official = [p for p in supports if p.official]
    if official:
        yield _own_pages(official, *SAYS)
    yield from _sources(facts, [p for p in supports if not p.official], beside=bool(official))
    if not supports:
        yield Told("no page that was found says so", "所找到的网页都没有这样说")
    vague = [p for p in hedges if p.said is None or p.said.amount != "differs"]
    if vague:
        yield told(
            "{n:page does|pages do} not vouch for it {which}",
            "{n} 个网页未予肯定 {which}",
            n=len(vague),
            which=_numbers(vague),
        )
    yield from _denials(denies)
    if official and all(p.age is None for p in official):
        yield Told("when it says so is not known", "其发布时间不详")
    elif official and facts.critic == "not_enough_evidence":
        yield Told("the critic finds not enough evidence either way", "核查模型认为正反证据都不足")
    elif supports and not denies and not any(p.official or p.speaks_for for p in supports):
        # Of a page on which the critic hears the party, it is not known here whether the rules took it for official.
        yield Told("no official page among them", "其中没有官方网页")


def _stale(facts: _Facts) -> Iterator[Told]:
    supports, earlier = facts.of("supports"), facts.of("earlier")
    if earlier:
        yield told(
            "{n:page tells|pages tell} the same story of an earlier event {which}", "{n} 个网页讲的是更早的同类事件 {which}",
            n=len(earlier), which=_numbers(earlier),
        )  # fmt: skip
    if supports and all(p.age is not None and p.age > STALE_AFTER for p in supports):
        yield told(
            "{n:page that says so is|pages that say so are all} older than {days} days {which}",
            "这样说的 {n} 个网页都早于 {days} 天前 {which}", n=len(supports), days=STALE_AFTER.days, which=_numbers(supports),
        )  # fmt: skip
    elif not any(p.age is not None and p.age <= STALE_AFTER for p in supports):
        yield told(
            "no page is known to say so within {days} days", "未见 {days} 天内的网页这样说", days=STALE_AFTER.days
        )


def _disputed(facts: _Facts) -> Iterator[Told]:
    supports, denies = facts.of("supports"), facts.of("denies")
    if denies:
        yield from _denials(denies)
    elif facts.critic in {"conflicting", "refuted"}:
        critic = {
            "conflicting": Told("the critic finds that sources contradict each other", "核查模型认为来源互相矛盾"),
            "refuted": Told("the critic finds that the evidence speaks against it", "核查模型认为证据与之相反"),
        }
        yield critic[facts.critic]
    official = [p for p in supports if p.official]
    if official:
        yield _own_pages(official, *SAYS)
    yield from _sources(facts, [p for p in supports if not p.official], beside=bool(official))


def _refuted(facts: _Facts) -> Iterator[Told]:
    if facts.measured == "contradicts":
        yield told(
            "the prices measured over two hours stayed within {share:g} % of the peg", "两小时内的实测价格与锚定价相差不超过 {share:g}%",
            share=STILL * 100,
        )  # fmt: skip
    yield from _denials(facts.of("denies"))
    if supports := facts.of("supports"):
        yield told(
            "{n:page says|pages say} so all the same {which}",
            "仍有 {n} 个网页这样说 {which}",
            n=len(supports),
            which=_numbers(supports),
        )


def _denials(denies: list[_Page]) -> Iterator[Told]:
    """Tell who denies: own pages, then the word of a party or an authority as others report it, then anybody else."""
    official = [p for p in denies if p.official]
    heard = [p for p in denies if p.speaks_for]
    if official:
        yield _own_pages(official, *DENIES)
    if heard:
        yield _heard(heard, DENIES[0])
    if others := [p for p in denies if p not in official and p not in heard]:
        yield _deny(others)


def _deny(pages: list[_Page]) -> Told:
    return told(
        "{n:unofficial page denies|unofficial pages deny} it {which}",
        "{n} 个非官方网页予以否认 {which}",
        n=len(pages),
        which=_numbers(pages),
    )


def _own_pages(pages: list[_Page], one: Told, many: Told) -> Told:
    names = dict.fromkeys(p.found.speaker for p in pages if p.found is not None and p.found.speaker)
    of: dict[str, object] = {
        "who": joined(names, " and ", "与"),
        "n": len(pages),
        "which": _numbers(pages),
        "one": one,
        "many": many,
    }
    if not names:
        en = "an official page {one} {which}" if len(pages) == 1 else "{n} official pages {many} {which}"
        return told(en, "官方网页{one} {which}", **of)
    page, does = ("page", "{one}") if len(pages) == 1 else ("pages", "{many}")
    en = f"{{who}}'s own {page} {does} {{which}}" if len(names) == 1 else f"pages of {{who}} {does} {{which}}"
    return told(en, "{who} 自己的网页{one} {which}", **of)


def _heard(pages: list[_Page], does: Told) -> Told:
    """Tell the word of a party or an authority, as pages report it that may be anybody's."""
    authority = all(p.speaks_for == "authority" for p in pages)
    who = Told("an authority", "主管机构") if authority else Told("the party itself", "当事方")
    cited = dict.fromkeys(p.said.cites for p in pages if p.said is not None and p.said.cites)
    named = told(" ({who})", "（{who}）", who=joined(cited, ", ", "、")) if len(cited) == 1 else Told()
    en, zh = "{who}{named} {does}, by what {which} reports", "据 {which}，{who}{named}{does}"
    if len(pages) > 1:
        en = en.replace("reports", "report")
    return told(en, zh, who=who, named=named, does=does, which=_numbers(pages))


def _sources(facts: _Facts, pages: list[_Page], *, beside: bool) -> Iterator[Told]:
    """Tell the pages that say so without being official, how many of them are established, and what all count as."""
    if not pages:
        return
    kept = [p for p in pages if p.is_established]
    of = {"n": len(pages), "which": _numbers(pages)}
    en = "{n:other page says|other pages say} so {which}" if beside else "{n:page says|pages say} so {which}"
    zh = "另有 {n} 个网页这样说 {which}" if beside else "{n} 个网页这样说 {which}"
    if len(kept) == len(pages):
        en, zh = (
            en.replace("page says", "established page says").replace("pages say", "established pages say"),
            zh.replace("网页", "可信网页"),
        )
    elif kept:
        en, zh = en + ", {k} of them established", zh + "，其中 {k} 个可信"
    yield told(en, zh, k=len(kept), **of)
    everyone, sources = len(facts.of("supports")), facts.signal.supporting_sources
    if sources is not None and sources < everyone:
        yield told("all that say so count as {n:source|sources}", "这样说的共计 {n} 个来源", n=sources)


def _beside(facts: _Facts) -> Iterator[Told]:
    """Tell what takes something from the evidence: chains of citations, other amounts, quotes that failed, parts refuted."""
    chains: dict[str, list[_Page]] = defaultdict(list)
    for page in facts.pages:
        if page.stance in {"supports", "hedges"} and page.said is not None and page.said.cites:
            chains[page.said.cites.strip().casefold()].append(page)
    for chain in chains.values():
        if len(chain) > 1 and (first := chain[0].said) is not None:
            en, zh = "{which} cite the same source, “{cited}”", "{which} 引自同一来源“{cited}”"
            yield told(en, zh, cited=first.cites, which=_numbers(chain))
    if other := [p for p in facts.of("hedges") if p.said is not None and p.said.amount == "differs"]:
        yield told(
            "{n:page gives|pages give} another amount {which}",
            "{n} 个网页给出的金额不同 {which}",
            n=len(other),
            which=_numbers(other),
        )
    flags = facts.signal.risk_flags
    if "quotes_failed" in flags and facts.unquoted:
        n, which = len(facts.unquoted), references(facts.unquoted)
        yield told(
            "{n:quote of the critic is|quotes of the critic are} not on the page {which}",
            "核查模型的 {n} 处引文不在网页上 {which}",
            n=n,
            which=which,
        )
    if "partly_refuted" in flags:
        yield Told("a part of it is refuted", "部分内容被否认")
    if not facts.read and facts.pages:
        yield Told("no critic read the pages", "没有模型阅读这些网页")


def _numbers(pages: Iterable[_Page]) -> Told:
    numbers = sorted(p.number for p in pages)
    if len(numbers) <= MOST_NAMED:
        return Told(references(numbers), references(numbers))
    some = references(numbers[: MOST_NAMED - 1])
    return told("{some} and {n} more", "{some} 等", some=some, n=len(numbers) - MOST_NAMED + 1)


def _facts(records: Sequence[JournalRecord], events: Sequence[ev.Event], signal: Signal) -> _Facts:
    opening = next((e for e in events if isinstance(e, ev.EventReceived | ev.SecondLookOpened)), None)
    critique, found = critique_of(records), last_findings(records)
    read = critique is not None and critique.stances is not None
    said = {s.reference_number: s for s in (critique.stances or ())} if critique is not None else {}
    known = {r.reference_number: r for r in (found.references if found is not None else ())}
    unquoted = critique.unquoted if critique is not None else ()
    # The page of the news itself is no witness for it.
    origin = canonical_url(opening.news.url) if opening is not None and opening.news.url else None
    pages = tuple(
        _Page(
            number=e.reference_number,
            stance=e.stance,
            official=e.official,
            found=known.get(e.reference_number),
            said=said.get(e.reference_number) if e.quote is not None else None,
            age=None if e.published_at is None or opening is None else utc(_as_of(opening)) - utc(e.published_at),
        )
        for e in signal.evidence
        if canonical_url(e.url) != origin
    )
    critic = critique.verdict if critique is not None and read else ""
    return _Facts(
        signal=signal,
        pages=pages,
        measured=_measured(events, signal, opening),
        read=read,
        critic=critic,
        unquoted=unquoted,
    )


def _as_of(opening: ev.EventReceived | ev.SecondLookOpened) -> datetime:
    return opening.news.as_of if isinstance(opening, ev.EventReceived) else opening.due_at


def _measured(
    events: Sequence[ev.Event], signal: Signal, opening: ev.EventReceived | ev.SecondLookOpened | None
) -> Measured | None:
    values = tuple(v for e in events if isinstance(e, ev.SearchCompleted) for v in e.market)
    if not values or opening is None:
        return None
    news = opening.news
    claim = Claim(
        text=news.text,
        language=opening.language,
        event_type=signal.event_type,
        asset=signal.asset,
        as_of=_as_of(opening),
    )
    return measured(claim, measurements_of(values, claim))
