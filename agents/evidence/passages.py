"""Passages that a critic is shown, and the check that its quotes appear in them.

A passage has at most 1,200 characters around the claim's words, with every correction of the page: a page may retract at
its end what its body still says. Quotes are compared without case, widths, Han variants, kinds of quotation marks and
dashes, white space, Markdown and links, and never across title and passage. A quote may be cut with an ellipsis; then each
part must appear, in order.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import accumulate

from agents.text.amounts import Amounts, share
from agents.text.matching import fold_han, has_cjk, units

PASSAGE = 1200
"""Characters of a passage."""
_SENTENCE = re.compile(rf".{{1,{PASSAGE - 1}}}?(?:[。!?!?]|[.;](?=\s)|\n|$)\s*|.{{1,{PASSAGE}}}", re.DOTALL)
"""A sentence, or a piece of a text without sentence ends."""
_PARTED = "\n…\n"
MOST_CORRECTIONS = 400
"""Characters of corrections in a passage that is cut."""
_CORRECTS = re.compile(
    r"(?:^|[.!?。！？*(\[【]\s*)(?:corrections?|corrected|clarification|retraction|retracted|editor['’]?s['’]? note|erratum)\b"
    r"[\]】)*]*\s?(?:\([^()\n]{1,40}\)\s?)?[:：\u2013\u2014-]"
    r"|[\[【]\s*(?:corrections?|corrected|retracted|retraction|已?更正|已?撤回)\s*[\]】]|^[^\w\n]{0,8}correction\.\s"
    r"|\bwe (?:have |had )?(?:now |since )?(?:retract(?:ed)?|withdr[ae]wn?) (?:this|the|our|that) (?:article|story|report|post|piece)\b"
    r"|\b(?:we|\w+) regrets? (?:the|this|any) errors?\b"
    r"|\b(?:updated?|edit(?:ed)?)\b[^.!?\n]{0,40}[:：][^.!?\n]{0,160}\b(?:not true|fake|mistaken|a hoax|incorrect|wrong(?:ly)?|inaccurate|erroneous|false|untrue|retract\w*|misreported|withdrawn)\b"
    r"|\bthis (?:article|story|report|post|piece|headline)\b[^.!?\n]{0,60}\b(?:(?:been|was) (?:corrected|retracted|amended|withdrawn)|updated to correct)\b"
    r"|\b(?:an?|the) (?:earlier|previous|prior|original) version of (?:this|the)\b"
    r"|\bthe (?:report|article|story|post) above (?:was|is) (?:\w+ )?(?:incorrect|wrong|inaccurate|false|untrue|retracted)\b"
    r"|(?:^|[【〔(（。]\s*)(?:特此)?更正(?![式常确確规])|更正(?:[:：]|[声聲说說启啟公]|如下)|勘[误誤]|[编編]者[注註]|[订訂]正(?![版本])|撤稿"
    r"|(?:本文|此文|上文|上述[报報][道导導]|此前[报報][道导導])[^。！？!?\n]{0,16}(?:有[误誤]|[错錯][误誤]|不[实實]|不准确|不準確|已撤|已?更正)"
    r"|特此更正|就[^。！？!?\n]{0,12}(?:[错錯][误誤]|失[实實])[^。！？!?\n]{0,8}致歉|(?:消息|[报報][道导導])有[误誤]|本[报報][道导導][^。！？!?\n]{0,6}撤回"
    r"|정정\s?(?:보도|합니다)|お詫び",
    re.IGNORECASE | re.MULTILINE,
)
"""A page that corrects itself, in its own words."""


def corrects_itself(text: str) -> bool:
    """Return whether a page says that something on it is or was wrong."""
    return _CORRECTS.search(text) is not None


def passage_of(text: str, claim_units: Collection[str]) -> str:
    """Return the run of whole sentences around the one with most of the claim's words. A short text is returned whole.

    Corrections outside the run precede it in order, separated by “…”. ``claim_units``: the units of the claim's folded text
    (``agents.text.matching.units``).
    """
    plain = text.strip()
    if len(plain) <= PASSAGE:
        return plain
    sentences = [m[0][:PASSAGE] for m in _SENTENCE.finditer(plain)]
    corrections = _corrections(sentences) if corrects_itself(plain) else []
    run = _run(sentences, claim_units, PASSAGE - sum(len(c) + len(_PARTED) for c in corrections))
    return _PARTED.join([*(c for c in corrections if c not in run), run])


def _corrections(sentences: list[str]) -> list[str]:
    corrections: list[str] = []
    for at, sentence in enumerate(sentences):
        correction = _CORRECTS.search(sentence)
        if correction is None or any(sentence.strip() in f for f in corrections):
            continue
        # The sentence after “Correction:” may say what was wrong.
        text = (sentence[correction.start() :] + "".join(sentences[at + 1 : at + 2])).strip()
        corrections.append(text[: MOST_CORRECTIONS - sum(map(len, corrections))].strip())
    return [f for f in corrections if f]


def _run(sentences: list[str], claim_units: Collection[str], most: int) -> str:
    sentences = [s[:most] for s in sentences]
    wanted = {u for u in claim_units if len(u) > 2 or not u.isascii()}
    weights = [len(wanted.intersection(units(fold_han(s)))) for s in sentences]
    sums, ends, anchor = [0, *accumulate(weights)], [0, *accumulate(map(len, sentences))], weights.index(max(weights))
    best, start = (-1, 0, 0, 0), 0
    for end in range(1, len(sentences) + 1):
        while ends[end] - ends[start] > most:
            start += 1
        is_full = end == len(sentences) or ends[end + 1] - ends[start] > most
        if start <= anchor < end and is_full:
            # Of equal runs, the one with as much before the sentence as after it.
            off_centre = abs(ends[start] + ends[end] - ends[anchor] - ends[anchor + 1])
            best = max(best, (sums[end] - sums[start], -off_centre, start, end))
    return "".join(sentences[best[2] : best[3]]).strip()


MIN_LATIN, MIN_HAN = 12, 6
"""Characters of each part of a quote."""
_LINK = re.compile(r"!?\[([^\[\]]*)\]\((?:[^()]|\([^()]*\))*\)|(?:https?://|www\.)\S+")
_EMPHASIS = re.compile(r"[*_`]+")
_MARKS = re.compile(r"[#>|]+")
_QUOTES = re.compile(r"[\"'\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d\u300e\u300f\u2032\u2033]")
_DASHES = re.compile(r"[-\u2010-\u2015\u2212\uff0d~\uff5e]+")
_BESIDE_HAN = re.compile(r"(?<=[\u3400-\u9fff]) | (?=[\u3400-\u9fff])")
_SPACE = re.compile(r"\s+")
_CUT = re.compile(r"\u2026|\.{3,}|\[\s*(?:\.{2,}|\u2026)\s*\]")
_SENTENCE_ENDS = re.compile(r"(?<=[。!?;])|(?<=[.!?;])\s")


_SHINJITAI = str.maketrans("庁価証経済発売図関気対実両団権国会学", "厅价证经济发卖图关气对实两团权国会学")
"""Japanese forms of characters that names of authorities and companies hold, to their simplified Chinese ones."""


def folded(text: str) -> str:
    """Return the form in which quotes and pages are compared."""
    plain = fold_han(text if text.isascii() else text.translate(_SHINJITAI))
    if "[" in plain or "http" in plain or "www." in plain:
        plain = _LINK.sub(lambda m: m[1] or " ", plain)
    plain = _MARKS.sub(" ", _EMPHASIS.sub("", plain))
    plain = _DASHES.sub("-", _QUOTES.sub(" ", plain)).casefold()
    plain = _SPACE.sub(" ", plain).strip()
    # Chinese is written with and without spaces beside Latin words.
    return plain if plain.isascii() else _BESIDE_HAN.sub("", plain)


def sentences_of(quote: str, title: str, passage: str) -> list[str]:
    """Return the folded sentences that contain the quote; none if neither title nor passage contains it."""
    parts = [p for part in _CUT.split(quote) if (p := folded(part).strip(" .,;:-"))]
    if not parts or any(len(p) < (MIN_HAN if has_cjk(p) else MIN_LATIN) for p in parts):
        return []
    return _around(parts, folded(title)) or _around(parts, folded(passage))


def names_any(text: str, names: Collection[str], amounts: frozenset[float] = frozenset()) -> bool:
    """Return whether a folded text names one of the names (folded), or one of the amounts (plain numbers)."""
    return any(_named(n, text) for n in names) or (bool(amounts) and share(Amounts(text).given, amounts))


def _around(parts: list[str], text: str) -> list[str]:
    """Return the sentences that contain the parts, if all parts appear in the text in order."""
    at, passages = 0, []
    for part in parts:
        start = text.find(part, at)
        if start < 0:
            return []
        at = start + len(part)
        before = max((m.end() for m in _SENTENCE_ENDS.finditer(text, 0, start)), default=0)
        after = _SENTENCE_ENDS.search(text, max(start, at - 1))
        passages.append(text[before : after.start() if after else len(text)])
    return passages


def _named(name: str, sentence: str) -> bool:
    if not name.isascii():
        return name in sentence
    return re.search(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])", sentence) is not None
