"""The opening sentence of a case, in English and in Chinese: its signal's summary, and who says what, by reference number.

Templates build it from the case's records. It states only what the signal's evidence shows: the rules decided who is
official or heard, and the signal itself counts its sources.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from agents.evidence.pages import utc
from agents.evidence.summary import plainly, summary_of
from agents.evidence.verdict import STALE_AFTER
from agents.text.hosts import canonical_url
from agents.text.wording import Text, fill, joined, references, term
from newsproof.report.narrative import critique_of, last_findings
from schemas import events as ev
from schemas.evidence import PageStance, SearchReference
from schemas.signals import WITHDRAWN, Signal, Stage
from streams.journal.case_reading import JournalRecord

NOT_KNOWN = Text()
MOST_NAMED = 6
"""Maximum number of references to name. The others are counted."""


class _Page(msgspec.Struct, frozen=True, kw_only=True):
    """One page of the signal's evidence. ``reading``: the critic's stance; None if it does not count.

    ``figures``: the page's amount and the claim's, if code compared them and they differ.
    """

    number: int
    stance: str
    official: bool
    reference: SearchReference | None = None
    reading: PageStance | None = None
    age: timedelta | None = None
    figures: tuple[float, float] | None = None

    @property
    def gives_another_amount(self) -> bool:
        return self.stance == "hedges" and (
            self.figures is not None or (self.reading is not None and self.reading.amount == "differs")
        )

    @property
    def is_established(self) -> bool:
        return self.reference is not None and self.reference.source_credibility in {"high", "medium"}

    @property
    def speaks_for(self) -> str:
        """Return "party" or "authority" if an unofficial page reports its statement, else ""."""
        heard = self.reading is not None and self.reading.speaks_for != "other" and not self.official
        return self.reading.speaks_for if heard and self.reading is not None else ""


class _Facts(msgspec.Struct, frozen=True, kw_only=True):
    """A decided case. ``read``: a critic read the pages. ``critic``: its verdict."""

    signal: Signal
    pages: tuple[_Page, ...]
    read: bool
    critic: str
    unquoted: tuple[int, ...]

    def of(self, stance: str) -> list[_Page]:
        return [p for p in self.pages if p.stance == stance]


def case_sentence(records: Sequence[JournalRecord], newest: Text = NOT_KNOWN, stage: Stage | None = None) -> Text:
    """Return the result of the case. ``newest``: summary of the latest published revision. ``stage``: its stage."""
    events = [r.event for r in records if r.accepted]
    ended = next((e for e in reversed(events) if isinstance(e, ev.TERMINAL)), None)
    match ended:
        case ev.SignalSynthesized(signal=signal):
            return _decided(_facts(records, events, signal), newest, stage if stage in WITHDRAWN else None)
        case ev.CaseDropped(reason="duplicate", duplicate_of=first) if first:
            return fill(
                "Dropped: case {case} has the same text.",
                "已舍弃：与案例 {case} 正文相同。",
                case=first,
            )
        case ev.CaseDropped(reason=reason):
            return DROPPED[reason]
        case ev.CaseFailed(failed_step=""):
            return Text("Ended by request, without a signal.", "应要求结束，没有信号。")
        case ev.CaseFailed(failed_step=step, attempts=n):
            en, zh = (
                "Failed, without a signal: {step} failed in {n:attempt|attempts}.",
                "失败，没有信号：“{step}”尝试 {n} 次未成功。",
            )
            return fill(en, zh, step=term(step), n=n)
        case _:
            return Text("Open: no decision yet.", "处理中：尚无结论。")


DROPPED = {
    "duplicate": Text("Dropped: an earlier case has the same text.", "已舍弃：已有案例正文相同。"),
    "same_story": Text(
        "Joined: an earlier case reports the same event, and its signal counts for both.",
        "已并入：更早的案例报道了同一事件，以其信号为准。",
    ),
    "unchanged": Text("Second check: the signal is unchanged.", "再次核查：信号维持不变。"),
    "spam": Text("Dropped: it is advertising or makes no claim.", "已舍弃：属于广告，或没有可核查的说法。"),
    "empty": Text("Dropped: its text has no words.", "已舍弃：正文没有文字。"),
}
NOT_IN_CORPUS = Text("the bundled corpus has nothing on this", "内置语料库中没有与此事相关的资料")
"""Why an offline search found nothing. It says nothing about the news itself, unlike an empty search of the web."""
SAYS = (Text("says so", "这样说"), Text("say so", "这样说"))
DENIES = (Text("denies it", "予以否认"), Text("deny it", "予以否认"))


def _decided(facts: _Facts, newest: Text, withdrawn: Stage | None) -> Text:
    """Return the signal's summary, then who says what. ``withdrawn``: stage of the revision that retracted it."""
    signal = facts.signal
    sentence = newest or Text(signal.summary_en or "", signal.summary_zh or "")
    if signal.claim_en is UNSET:  # of older code, whose summary is the claim alone
        denied = {"stage": withdrawn, "verdict": "refuted"} if withdrawn else {}
        sentence = summary_of(replace(signal, **denied))
    clauses = [*_TELL[signal.verdict](facts), *_beside(facts)] if signal.verdict in _TELL else []
    if clauses and signal.provider_mode == "offline" and all(p.stance == "unrelated" for p in facts.pages):
        clauses = [NOT_IN_CORPUS]
    if not clauses:
        return fill("{said}.", "{said}。", said=sentence)
    if withdrawn:
        clauses[0] = fill("before that: {what}", "此前：{what}", what=clauses[0])
    why = joined(clauses, "; ", "；")
    return fill("{said}. {why}.", "{said}。{why}。", said=sentence, why=Text(why.en[:1].upper() + why.en[1:], why.zh))


def _confirmed(facts: _Facts) -> Iterator[Text]:
    supports = facts.of("supports")
    official = [p for p in supports if p.official]
    heard = [p for p in supports if p.speaks_for]
    if official:
        yield _own_pages(official, *SAYS)
    elif heard:
        yield _spoken_by(heard, SAYS[0])
    spoken = official or heard
    yield from _sources(facts, [p for p in supports if p not in spoken], beside=bool(spoken))
    yield from _denials(facts.of("denies"))


def _too_little(facts: _Facts) -> Iterator[Text]:
    supports, hedges, denies = (facts.of(stance) for stance in ("supports", "hedges", "denies"))
    official = [p for p in supports if p.official]
    if official:
        yield _own_pages(official, *SAYS)
    yield from _sources(facts, [p for p in supports if not p.official], beside=bool(official))
    if not supports and any(p.gives_another_amount for p in hedges):
        yield Text("the event is reported with a different amount", "事件有报道，但金额不同")
    elif not supports:
        yield Text("no page found says so", "所找到的网页都没有这样说")
    vague = [p for p in hedges if not p.gives_another_amount]
    if vague:
        yield _pages(vague, "{n:page does|pages do} not vouch for it {which}", "{n} 个网页未予肯定 {which}")
    yield from _denials(denies)
    if official and all(p.age is None for p in official):
        yield Text("the publication time is not known", "其发布时间不详")
    elif official and facts.critic == "not_enough_evidence":
        yield Text("the critic finds not enough evidence either way", "核查模型认为正反证据都不足")
    elif supports and not denies and not any(p.official or p.speaks_for for p in supports):
        # If the critic hears the party on a page, it is unknown here whether the rules took the page for official.
        yield Text("no official page among them", "其中没有官方网页")


def _stale(facts: _Facts) -> Iterator[Text]:
    supports, earlier = facts.of("supports"), facts.of("earlier")
    if earlier:
        yield _pages(
            earlier,
            "{n:page reports|pages report} an earlier event of the same kind {which}",
            "{n} 个网页讲的是更早的同类事件 {which}",
        )
    if supports and all(p.age is not None and p.age > STALE_AFTER for p in supports):
        yield fill(
            "{n:page that says so is|pages that say so are all} older than {days} days {which}",
            "这样说的 {n} 个网页都早于 {days} 天前 {which}", n=len(supports), days=STALE_AFTER.days, which=_numbers(supports),
        )  # fmt: skip
    elif not any(p.age is not None and p.age <= STALE_AFTER for p in supports):
        yield fill(
            "no page is known to say so within {days} days", "未见 {days} 天内的网页这样说", days=STALE_AFTER.days
        )


def _disputed(facts: _Facts) -> Iterator[Text]:
    supports, denies = facts.of("supports"), facts.of("denies")
    if denies:
        yield from _denials(denies)
    elif facts.critic in {"conflicting", "refuted"}:
        critic = {
            "conflicting": Text("the critic finds that sources contradict each other", "核查模型认为信源互相矛盾"),
            "refuted": Text("the critic finds that the evidence contradicts it", "核查模型认为证据与之相反"),
        }
        yield critic[facts.critic]
    official = [p for p in supports if p.official]
    if official:
        yield _own_pages(official, *SAYS)
    yield from _sources(facts, [p for p in supports if not p.official], beside=bool(official))


def _refuted(facts: _Facts) -> Iterator[Text]:
    yield from _denials(facts.of("denies"))
    if supports := facts.of("supports"):
        yield _pages(supports, "{n:page still says|pages still say} so {which}", "仍有 {n} 个网页这样说 {which}")


_TELL = {
    "confirmed": _confirmed,
    "likely": _too_little,
    "unconfirmed": _too_little,
    "stale": _stale,
    "disputed": _disputed,
    "refuted": _refuted,
}


def _denials(denies: list[_Page]) -> Iterator[Text]:
    """Yield who denies it: own pages, then a party or an authority as others report it, then all others."""
    official = [p for p in denies if p.official]
    heard = [p for p in denies if p.speaks_for]
    if official:
        yield _own_pages(official, *DENIES)
    if heard:
        yield _spoken_by(heard, DENIES[0])
    if others := [p for p in denies if p not in official and p not in heard]:
        yield _deny(others)


def _deny(pages: list[_Page]) -> Text:
    return _pages(
        pages, "{n:unofficial page denies|unofficial pages deny} it {which}", "{n} 个非官方网页予以否认 {which}"
    )


def _own_pages(pages: list[_Page], singular: Text, plural: Text) -> Text:
    names = dict.fromkeys(p.reference.speaker for p in pages if p.reference is not None and p.reference.speaker)
    of: dict[str, object] = {
        "who": joined(names, " and ", "与"),
        "n": len(pages),
        "which": _numbers(pages),
        "one": singular,
        "many": plural,
    }
    if not names:
        en = "an official page {one} {which}" if len(pages) == 1 else "{n} official pages {many} {which}"
        return fill(en, "官方网页{one} {which}", **of)
    page, does = ("page", "{one}") if len(pages) == 1 else ("pages", "{many}")
    en = f"{{who}}'s own {page} {does} {{which}}" if len(names) == 1 else f"pages of {{who}} {does} {{which}}"
    return fill(en, "{who} 自己的网页{one} {which}", **of)


def _spoken_by(pages: list[_Page], does: Text) -> Text:
    """Return the statement of a party or an authority, as other pages report it."""
    authority = all(p.speaks_for == "authority" for p in pages)
    who = Text("an authority", "主管机构") if authority else Text("the party itself", "当事方")
    cited = dict.fromkeys(p.reading.cites for p in pages if p.reading is not None and p.reading.cites)
    named = fill(" ({who})", "（{who}）", who=joined(cited, ", ", "、")) if len(cited) == 1 else Text()
    en, zh = "{who}{named} {does}, as {which} reports", "据 {which}，{who}{named}{does}"
    if len(pages) > 1:
        en = en.replace("reports", "report")
    return fill(en, zh, who=who, named=named, does=does, which=_numbers(pages))


def _sources(facts: _Facts, pages: list[_Page], *, beside: bool) -> Iterator[Text]:
    """Yield the unofficial pages that say so, how many of them are established, and the number of sources they count as."""
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
    yield fill(en, zh, k=len(kept), **of)
    everyone, sources = len(facts.of("supports")), facts.signal.supporting_sources
    if sources is not None and sources < everyone:
        yield fill("all pages that say so count as {n:source|sources}", "这样说的共计 {n} 个信源", n=sources)


def _beside(facts: _Facts) -> Iterator[Text]:
    """Yield what weakens the evidence: chains of citations, other amounts, failed quotes, refuted parts."""
    chains: dict[str, list[_Page]] = defaultdict(list)
    for page in facts.pages:
        if page.stance in {"supports", "hedges"} and page.reading is not None and page.reading.cites:
            chains[page.reading.cites.strip().casefold()].append(page)
    for chain in chains.values():
        if len(chain) > 1 and (first := chain[0].reading) is not None:
            en, zh = "{which} cite the same source, “{cited}”", "{which} 引自同一信源“{cited}”"
            yield fill(en, zh, cited=first.cites, which=_numbers(chain))
    yield from _other_amounts([p for p in facts.pages if p.gives_another_amount])
    flags = facts.signal.risk_flags
    if "quotes_failed" in flags and facts.unquoted:
        n, which = len(facts.unquoted), references(facts.unquoted)
        yield fill(
            "{n:quote of the critic is|quotes of the critic are} not on the page {which}",
            "核查模型的 {n} 处引文不在网页上 {which}",
            n=n,
            which=which,
        )
    if "partly_refuted" in flags:
        yield Text("part of it is refuted", "部分内容被否认")
    if not facts.read and facts.pages:
        yield Text("no critic read the pages", "没有模型阅读这些网页")


def _other_amounts(pages: list[_Page]) -> Iterator[Text]:
    """Yield the amounts that pages report instead of the claimed one: a party's own page by name, others by number."""
    by_figures: dict[tuple[float, float, str], list[_Page]] = defaultdict(list)
    for page in pages:
        if page.figures is not None:
            speaker = page.reference.speaker if page.official and page.reference is not None else None
            by_figures[*page.figures, speaker or ""].append(page)
    for (figure, claimed, speaker), giving in by_figures.items():
        own = fill("{who}'s own page reports", "{who} 自己的网页给出的金额是", who=speaker)
        others = fill("{n:page reports|pages report}", "{n} 个网页给出的金额是", n=len(giving))
        yield fill(
            "{who} {figure}, not {claimed} {which}", "{who} {figure}，而非 {claimed} {which}",
            who=own if speaker else others, figure=plainly(figure), claimed=plainly(claimed), which=_numbers(giving),
        )  # fmt: skip
    if rest := [p for p in pages if p.figures is None]:
        yield _pages(rest, "{n:page gives|pages give} a different amount {which}", "{n} 个网页给出的金额不同 {which}")


def _pages(pages: Sequence[_Page], en: str, zh: str, **more: object) -> Text:
    """Return a sentence on these pages: ``{n}`` is their number, ``{which}`` their references."""
    return fill(en, zh, n=len(pages), which=_numbers(pages), **more)


def _numbers(pages: Iterable[_Page]) -> Text:
    numbers = sorted(p.number for p in pages)
    if len(numbers) <= MOST_NAMED:
        return Text(references(numbers), references(numbers))
    some = references(numbers[: MOST_NAMED - 1])
    return fill("{some} and {n} more", "{some} 等", some=some, n=len(numbers) - MOST_NAMED + 1)


def _facts(records: Sequence[JournalRecord], events: Sequence[ev.Event], signal: Signal) -> _Facts:
    opening = next((e for e in events if isinstance(e, ev.EventReceived | ev.SecondLookOpened)), None)
    critique, findings = critique_of(records), last_findings(records)
    read = critique is not None and critique.stances is not None
    readings = {s.reference_number: s for s in (critique.stances or ())} if critique is not None else {}
    known = {r.reference_number: r for r in (findings.references if findings is not None else ())}
    unquoted = critique.unquoted if critique is not None else ()
    # The page of the news itself cannot corroborate it.
    origin = canonical_url(opening.news.url) if opening is not None and opening.news.url else None
    pages = tuple(
        _Page(
            number=e.reference_number,
            stance=e.stance,
            official=e.official,
            reference=known.get(e.reference_number),
            reading=readings.get(e.reference_number) if e.quote is not None else None,
            figures=None if e.figure is None or e.claimed is None else (e.figure, e.claimed),
            age=None if e.published_at is None or opening is None else utc(_as_of(opening)) - utc(e.published_at),
        )
        for e in signal.evidence
        if canonical_url(e.url) != origin
    )
    critic = critique.verdict if critique is not None and read else ""
    return _Facts(
        signal=signal,
        pages=pages,
        read=read,
        critic=critic,
        unquoted=unquoted,
    )


def _as_of(opening: ev.EventReceived | ev.SecondLookOpened) -> datetime:
    return opening.news.as_of if isinstance(opening, ev.EventReceived) else opening.due_at
