"""Regular expressions for negation (zh and en): words that a negation covers, phrases that call a report false."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from agents.text.matching import Words, words_pattern

# What may stand between a negation and the verb that it negates. Anything else (“did not say how it was hacked”,
# “未披露被盗金额”) means that something other than the verb is negated.
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
"""Every negation below holds one of these, in a text whose white space was collapsed."""


def negation_of(entries: Iterable[str]) -> Words:
    """Compile the negation of a list of words."""
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
