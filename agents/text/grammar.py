"""The grammar of denial (zh and en): what a sentence negates, calls false, hedges, or states.

The words are in the lexicon of the tables; this module is the grammar. It also recognises claims that are denials
themselves: a page that denies the same thing supports them. :mod:`agents.evidence.word_rules` decides what a whole page
says of the claim.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from agents.text.matching import NEVER, Words, fold_han, has_cjk, holds_any, words_pattern
from agents.text.scope import Scope, Target, stem

# Words allowed between a negation and the verb that it negates. Any other word (“did not say how it was hacked”,
# “未披露被盗金额”) means that the negation covers something else.
_EN_BETWEEN = (
    r"(?:been|be|being|yet|ever|actually|have|has|had|having|a|an|the|any|its|their|this|such|of|to|in|into|with|on|for|by|and|or|"
    r"plans?|planning|intends?|intention|intend|going|considering|considered|formally|officially|currently|signed|sign|entered|entering|"
    r"evidence|signs?|indication|agreed|agree|made|make|announced|subject|suffered|suffer|experienced?|decided|decide|received|issued?|"
    r"official|formal|new|spot|wallets?|systems?|security|hot|cold|commercial|business|existing|kind|form|reason|approval|decision|"
    r"truth|immediate|being|or|nor|directly|previously|even|was|were|is|are|bitcoin|crypto|etf|etfs|application|applications|token|"
    r"filed?|files|bring|brought|taken?|initiated?|plan|sought|seek(?:ing)?|found|seen|detected|observed|agreements?|deals?|contracts?|talks|discussions|pursu(?:e|ing)|potential|proposed|proceed(?:ing)?|move|moving|forward|go|happen(?:ed|ing)?|"
    r"conduct(?:ed|ing)?|complete[ds]?|start(?:ed|ing)?|began|begun|fall(?:en)?|victim|target(?:ed)?|affected|reserve|funds?|user|customer)"
)
_EN_NEGATION = (
    rf"(?:\b(?:not|never|no|neither|nor|without|cannot)\b(?!\s+only\b|\s+just\b)|n't\b)"
    rf"(?:[\s-]+{_EN_BETWEEN}){{0,6}}[\s-]+"
)
_ZH_BETWEEN = (
    r"(?:新的|遭受到?|遭到|遭遇|遭|被|受到|受|计划|打算|考虑|任何|任一|发生|出现|存在|有|过|正式|真正|实际|达成|建立|签署|进行|宣布|开展|提出|"
    r"发现|观察到|检测到|监测到|看到|形式的?|黑客|安全|相关|所谓|的|一切|官方|将|会|要|就|因|证据|表明|迹象|显示|意向|现货|比特币|代币|提供|该|此|其|公开|"
    r"[a-z0-9]{1,12}(?![a-z0-9])|\s)"
)
_ZH_WITH = r"(?:[与和同跟对向就][^,,。;;!?!?]{1,14}?)?"
_ZH_NEGATION = (
    r"(?:从未|并未|尚未|并没有|没有|未见|未曾|不曾|不会|并非|未(?!经|来|知|必|公布|披露)|无意|不存在|没(?!收)|未有|暂无|暂未|尚无|绝无|毫无|无任何|无)"
    rf"{_ZH_BETWEEN}{{0,4}}{_ZH_WITH}{_ZH_BETWEEN}{{0,4}}"
)


NEGATIONS = ("not", "never", "no ", "no-", "neither", "nor", "without", "n't", "未", "没", "不", "非", "无")
"""Each negation pattern matches only text that contains one of these, after white space was collapsed."""


def negation_of(entries: Iterable[str]) -> Words:
    """Compile the pattern that matches these words when they are negated."""
    return Words(entries, lambda words: rf"(?:{_EN_NEGATION}|{_ZH_NEGATION})(?:{words})", beside=NEGATIONS)


def negation_of_words(words: Iterable[str]) -> Words | None:
    """Compile the negation of a claim's own words, given as stems and pairs of characters; None without any.

    It finds negations of verbs outside the lexicon: “I am not leaving” and “并未停摆”.
    """
    words = sorted(words)
    latin = [w for w in words if w.isascii() and w.isalpha() and len(w) > 3]
    others = [w for w in words if not w.isascii()]
    en, zh = "|".join(rf"{w}[a-z]*" for w in latin), "|".join(map(re.escape, others))
    parts = [rf"{_EN_NEGATION}(?:{en})\b"] if en else []
    parts += [rf"{_ZH_NEGATION}(?:{zh})"] if zh else []
    return Words([*latin, *others], lambda _words: "|".join(parts), beside=NEGATIONS) if parts else None


def false_patterns(lexicon: Mapping[str, tuple[str, ...]]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Compile “a fake report” and “the report is fake” from the lists ``false_words`` and ``speech_nouns``."""
    false, nouns = (words_pattern(w.lower() for w in lexicon.get(key, ())) for key in ("false_words", "speech_nouns"))
    attributive = re.compile(rf"(?:{false})[\s-]+(?:[\w'$.-]+[\s-]+){{0,3}}?(?:{nouns})")
    # Three ways to call it false: “the report is false”, “called the report about X false”, “which turned out fake”.
    between = r"(?:\s+[\w'$.%-]+)"
    copula = r"(?:is|are|was|were|be|been|being|as|proved|proven|out|deemed)"
    naming = r"\b(?:call|label|brand|describ|declar|deem|dubb)\w*"
    predicative = re.compile(
        rf"(?:{nouns}|\b(?:it|this|that|which))\b{between}{{0,12}}?\s+{copula}(?:\s+[\w'-]+){{0,2}}?\s+(?:{false})"
        rf"|{naming}{between}{{0,3}}?\s+(?:{nouns}){between}{{0,6}}?\s+(?:{false})",
    )
    return attributive, predicative


_HEAD = 1200
"""Characters of the news that count as its claim."""
READ_LIMIT = 8000
"""Characters of a page that its stance is read from: articles state their message first, and the time is bounded."""
_YET = re.compile(r"\byet\b|尚未|暂未|还未|暂无|尚无")
_CLAUSES = re.compile(r"[,,。;;!?!?]|\.\s|\.$|\s[-–—]\s")
_SENTENCES = re.compile(r"[。;!!]|[.?]\s|[.]$|(?<=\?)")
_WORDS = re.compile(r"[a-z0-9]+|[\u4e00-\u9fff]{2,}")
_NOT = re.compile(r"\b(?:not|no|never|without|neither|nor)\b|n't|[?]|未|没|无|不")
_THERE_IS_NO = re.compile(r"\bthere (?:is|was|are|were) no (?:[\w.-]+ )?[\w.-]+")
_REFUSED = re.compile(r"\b(?:den(?:y|ies|ied|ying|ials?)|reject(?:s|ed|ion)?|dismiss(?:es|ed|al)?)\b")
_OPEN_ENDED = frozenset({"approve"})
"""Events whose opposite is another event, not a denial: an approval and a rejection."""
_EXCLUSIVE = frozenset({"cut_rate", "raise_rate", "resume"})
"""Events that the opposite rules out even on a page that uses their verb: one meeting cannot both cut and hold."""
_MODAL_REACH = r"[\s-]+(?:also|soon|be|get|being|land|gain|secure|on|to|in|\w+ly)?(?:[\s-]+)?"


Assertion = Literal["stated", "hedged", "negated"]
"""The way a sentence presents an event."""


class ClaimSense:
    """The parsed features of a claim, which pages are compared with."""

    __slots__ = (
        *("account_hack", "denial", "future", "groups", "limited", "names", "negated", "postpones"),
        *("beside", "own_negation", "refusal", "says", "suit", "target", "topic", "topic_words"),
    )

    def __init__(self, names: frozenset[str] = frozenset()) -> None:
        self.names = names
        self.groups: tuple[str, ...] = ()
        self.negated: tuple[str, ...] = ()
        self.says: tuple[str, ...] = ()
        self.target = self.topic = Target()
        self.topic_words = NEVER
        self.own_negation: Words | None = None
        self.denial = self.suit = self.future = self.account_hack = False
        self.beside = self.postpones = self.refusal = self.limited = False


class Grammar:
    """The lexicon's word lists, compiled into the patterns that decide a stance."""

    def __init__(self, lexicon: Mapping[str, tuple[str, ...]]) -> None:
        def words(key: str) -> Words:
            return Words(lexicon.get(key, ()))

        self._denial, self._not_denial, self._suit_denial = words("denial"), words("not_denial"), words("suit_denial")
        self._earlier, self._hedge, self._confirm = words("earlier_denial"), words("hedge"), words("confirm")
        self._account_hack, self._future = words("account_hack"), words("future")
        self._scope = Scope(lexicon)
        self._limits, self._attribution = words("limits"), words("attribution")
        self._self_names = words("self_names")
        objects = _lower_pattern(lexicon, "denial_object")
        self._act_denied = re.compile(
            r"\b(?:den(?:y|ies|ied|ying|ials?(?:\s+of)?)|reject(?:s|ed|ion(?:\s+of)?)?|dismiss(?:es|ed)?)"
            rf"\s+(?:[\w'.-]+\s+){{0,5}}(?:{objects})",
        )
        self._false_word = words("false_words")
        self._false = false_patterns(lexicon)
        self._converses = [v for k, v in lexicon.items() if k.startswith("converse/")]
        self._always_suit, self._no_plans = words("offence_denial"), words("no_plans")
        self._common = frozenset(stem(w.lower()) for w in lexicon.get("name_stopwords", ()))
        self._predicates: dict[str, Words] = {}
        self._negations: dict[str, Words] = {}
        self._modals: dict[str, Words] = {}
        self._antonyms: dict[str, Words] = {}
        # “Swaps and transfers” moves nothing, and who publishes a notice launches nothing.
        self._not_said = words("not_said")
        self._says: dict[str, Words] = {}
        self._said_modally: dict[str, Words] = {}
        modally = _behind(_lower_pattern(lexicon, "hedge_modal"))
        for key, entries in lexicon.items():
            family, _, group = key.partition("/")
            if family == "predicate":
                self._predicates[group] = Words(entries)
                self._negations[group] = negation_of(entries)
                self._modals[group] = Words(entries, modally)
            elif family == "says":
                self._says[group] = Words(entries)
                self._said_modally[group] = Words(entries, modally)
            elif family == "antonym":
                self._antonyms[group] = Words(entries)

    def sense(self, claim_text: str, names: frozenset[str] = frozenset()) -> ClaimSense:
        """Parse a claim once. Only the head of the news states the claim; the rest is background.

        ``names`` (lower case) are those of its parties and its subject.
        """
        text = fold_han(claim_text[:_HEAD]).lower()
        out = ClaimSense(names)
        present = [g for g, p in self._predicates.items() if p.search(text)]
        out.negated = tuple(g for g in present if self._negations[g].search(text))
        statement = self._not_said.sub(" ; ", text)
        out.says = tuple(g for g, p in self._says.items() if p.search(statement))
        out.groups = self._with_converses(g for g in present if g not in out.negated)
        out.suit = not {"sue", "arrest"}.isdisjoint(present)
        out.account_hack = self._account_hack.search(text) is not None
        out.refusal = self._act_denied.search(text) is not None
        opposed = any(p.search(text) for g, p in self._antonyms.items() if g in present and g not in _OPEN_ENDED)
        out.denial = bool(out.negated) or opposed or self._says_false(self._cleaned(text, out), out.suit)
        out.target = Target(t for t in self._scope.target(text, names) if t not in self._common)
        bare = text
        for group in present:
            bare = self._predicates[group].sub(" ", bare)
        out.topic = self._scope.target(bare, names)
        out.topic_words = _words_of(out.topic)
        negation = negation_of_words(out.target)
        # A claim that says “will not appeal” is not denied by a page that says the same.
        out.own_negation = None if negation is not None and negation.search(text) else negation
        out.postpones = self._scope.postpones(text)
        out.beside = self._scope.is_beside(text)
        out.limited = self._limits.search(text) is not None
        out.future = self._future.search(text) is not None
        return out

    def _with_converses(self, groups: Iterable[str]) -> tuple[str, ...]:
        # One side's purchase is the other's sale: a page may report the deal from either side.
        known = dict.fromkeys(groups)
        for members in self._converses:
            if not known.keys().isdisjoint(members):
                known |= dict.fromkeys(members)
        return tuple(known)

    def denies(self, claim: ClaimSense, title: str, content: str, *, fresh: bool) -> bool:
        """Return whether a page about the claim's subject denies something. Its texts must be folded (``fold_han``).

        If the claim is a denial itself, such a page denies the same thing. ``fresh``: published around the time of the
        claim, so the opposite of the claim is news and not the earlier state.
        """
        text = f"{title.rstrip('. ')}. {content}".lower()
        cleaned = self._cleaned(text, claim)
        false = self._says_false(cleaned, claim.suit)
        about = self._on_claim(claim, cleaned) if false else cleaned
        denies = (false and self._says_false(about, claim.suit)) or self._negates(claim, cleaned)
        if denies and self._earlier.search(cleaned) and (self._confirms(cleaned) or self._states(claim, cleaned)):
            denies = False
        return denies or (fresh and not claim.denial and self._opposite(claim, cleaned))

    def speaks_of(self, claim: ClaimSense, text: str) -> bool:
        """Return whether a text (folded, in lower case) uses a verb of the claim."""
        return any(self._predicates[g].search(text) for g in claim.groups + claim.negated)

    def speaks_of_act(self, claim: ClaimSense, text: str) -> bool:
        """Return whether a text (folded, in lower case) uses a verb of the claim, a synonym, or a verb that excludes it."""
        groups = {*claim.groups, *claim.negated, *claim.says}
        ruled_out = any(g in groups and p.search(text) for g, p in self._antonyms.items())
        return self.speaks_of(claim, text) or self.says(claim, text) or ruled_out

    def says(self, claim: ClaimSense, text: str) -> bool:
        """Return whether a text (folded, in lower case) says the claim's verb, or a listed synonym of it."""
        statement = self._not_said.sub(" ; ", text)
        return any(self._says[g].search(statement) for g in claim.says)

    def assertion(self, claim: ClaimSense, sentence: str, *, announced: bool = False) -> Assertion:
        """Return the assertion of a sentence (folded, in lower case) with the claim's verb.

        ``announced``: the acting party itself speaks, so a future tense is not a hedge.
        """
        put = self._cleaned(sentence, claim)  # “This is no hoax” negates nothing.
        if _NOT.search(put) or self._says_false(put, claim.suit):
            return "negated"
        if any(g in (*claim.groups, *claim.says) and p.search(sentence) for g, p in self._antonyms.items()):
            return "negated"
        modal = (*(self._said_modally[g] for g in claim.says), *(self._modals[g] for g in claim.groups))
        if self._hedge.search(sentence) or any(p.search(sentence) for p in modal):
            return "hedged"
        planned = self._future.search(sentence) is not None
        return "hedged" if planned and not claim.future and not announced else "stated"

    def shares_topic(self, claim: ClaimSense, text: str, least: int = 1) -> bool:
        """Return whether a text (folded, in lower case) shares ``least`` words with the claim, besides parties and verbs."""
        words = {w if has_cjk(w) else stem(w) for w in claim.topic_words.findall(text)}
        return len(words & claim.topic) >= least

    def _cleaned(self, text: str, claim: ClaimSense) -> str:
        text = self._not_denial.sub(" ; ", text)
        text = self._always_suit.sub(" ; ", text)
        text = self._suit_denial.sub(" ; ", text) if claim.suit else text
        # Most pages have none of these words; checking for them first keeps a page at a fraction of a millisecond.
        if holds_any(text, ("den", "reject", "dismiss")):
            text = self._act_denied.sub(" ; ", text)
            # If the claim is that something was refused, “the denial” is the event.
            text = _REFUSED.sub(" ; ", text) if claim.refusal else text
        return text

    def _says_false(self, text: str, suit: bool) -> bool:
        if self._denial.search(text):
            return True
        if not self._false_word.search(text):
            return False
        attributive, predicative = self._false
        # In a lawsuit “false statements” are the matter of the suit; there only “the report is false” denies.
        return predicative.search(text) is not None or (not suit and attributive.search(text) is not None)

    def _negates(self, claim: ClaimSense, text: str) -> bool:
        if not claim.account_hack and "hack" not in claim.groups and self._account_hack.search(text):
            return True
        if any(self._is_negated(claim, self._negations[group], text) for group in claim.groups + claim.negated):
            return True
        if claim.own_negation is not None and self._is_negated(claim, claim.own_negation, text):
            return True
        if "there " in text and any(
            self._is_claimed(claim, m.group(), _around(text, m.start(), m.end())) for m in _THERE_IS_NO.finditer(text)
        ):
            return True
        return any(
            self._names_claim(claim, _around(text, m.start(), m.end())) and not self._states(claim, text)
            for m in self._no_plans.finditer(text)
        )

    def _on_claim(self, claim: ClaimSense, text: str) -> str:
        if not self._says_false(text, claim.suit):
            return text
        return self._scope.without_other_matters(
            text,
            denial=lambda clause: self._says_false(clause, claim.suit),
            on_claim=lambda words: self.speaks_of(claim, words),
            claim=claim.target,
            postpones=claim.postpones,
            beside=claim.beside,
            stated=self._states(claim, text) or self._confirms(text),
        )

    def _is_negated(self, claim: ClaimSense, negation: Words, text: str) -> bool:
        for match in negation.finditer(text):
            if claim.future and _YET.search(match.group()):
                continue
            clause = _around(text, match.start(), match.end())
            if not claim.limited and self._limits.search(clause):
                continue  # “No user funds were stolen” says what was spared, not whether it happened.
            if self._names_claim(claim, clause) or not self._states(claim, text[: match.start()]):
                return True
        return False

    def _is_claimed(self, claim: ClaimSense, absent: str, clause: str) -> bool:
        """Return whether “there is no …” names a party of the claim, in a clause about the claim."""
        named = claim.names.intersection(_WORDS.findall(clause))
        return not named.isdisjoint(_WORDS.findall(absent)) and (len(named) > 1 or self.shares_topic(claim, clause))

    def _names_claim(self, claim: ClaimSense, clause: str) -> bool:
        return self._self_names.search(clause) is not None or not claim.names.isdisjoint(_WORDS.findall(clause))

    def _states(self, claim: ClaimSense, text: str) -> bool:
        """Return whether some sentence states the claim as a fact."""
        return any(
            self._says_verb(claim, part)
            and not _NOT.search(part)
            and not self._hedge.search(part)
            and not self._attribution.search(part)
            and not self._denial.search(part)
            for part in _SENTENCES.split(text)
        )

    def _opposite(self, claim: ClaimSense, text: str) -> bool:
        return any(
            p.search(text) and not self._predicates[g].search(p.sub(" ", text))
            for g, p in self._antonyms.items()
            if g in claim.groups
        ) or any(
            p.search(text) and (g == "halt" or not self._stated_beside(claim, p, text))
            for g, p in self._antonyms.items()
            if (g == "halt" and g in claim.groups) or (g in _EXCLUSIVE and g in (*claim.groups, *claim.says))
        )

    def _stated_beside(self, claim: ClaimSense, opposite: Words, text: str) -> bool:
        """Return whether a sentence without the opposite states the claim, or the opposite appears only in forecasts."""
        parts = [(opposite.search(s) is not None, self.assertion(claim, s), s) for s in _SENTENCES.split(text)]
        stated = any(
            not opposed and presented == "stated" and self._says_verb(claim, s) for opposed, presented, s in parts
        )
        return stated or all(self._is_forecast(s) for opposed, _, s in parts if opposed)

    def _says_verb(self, claim: ClaimSense, sentence: str) -> bool:
        return self.says(claim, sentence) or self.speaks_of(claim, sentence)

    def _is_forecast(self, sentence: str) -> bool:
        return self._hedge.search(sentence) is not None or self._future.search(sentence) is not None

    def _confirms(self, text: str) -> bool:
        return self._confirm.search(text) is not None and any(
            self._confirm.search(part)
            and not self._hedge.search(part)
            and not re.search(r"\b(?:not|no|yet|un)\b|n't|未|没|无", part)
            for part in _CLAUSES.split(text)
        )


def _words_of(target: Target) -> re.Pattern[str]:
    en = "|".join(re.escape(w) for w in sorted(target) if not has_cjk(w))
    zh = "|".join(re.escape(w) for w in sorted(target) if has_cjk(w))
    parts = [rf"(?<![a-z0-9])(?:{en})[a-z0-9'-]*"] if en else []
    return re.compile("|".join([*parts, zh] if zh else parts)) if parts or zh else NEVER


def _around(text: str, start: int, end: int) -> str:
    """Return the clause that contains a match."""
    before = max((m.end() for m in _CLAUSES.finditer(text, max(0, start - 200), start)), default=max(0, start - 200))
    after = _CLAUSES.search(text, end)
    return text[before : after.start() if after else len(text)]


def _behind(modal: str) -> Callable[[str], str]:
    return lambda words: rf"(?:{modal})(?:{_MODAL_REACH})?(?:{words})"


def _lower_pattern(lexicon: Mapping[str, tuple[str, ...]], key: str) -> str:
    return words_pattern(e.lower() for e in lexicon.get(key, ()))
