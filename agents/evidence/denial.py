"""How one news text puts what it tells: whether it denies, denies a denial, or corrects an amount (zh and en)."""

from __future__ import annotations

import re

from agents.evidence.amounts import Amounts
from agents.evidence.compiled import Compiled
from agents.text.matching import fold_han
from schemas.signals import Modality

HEAD = 1_200
"""Characters of a news item that count as its claim; the rest is background."""
_DENIAL_DENIED = re.compile(
    r"\b(?:fake|false|fabricated|forged|fraudulent|bogus)\s+(?:denial|rebuttal)"
    r"|\b(?:denial|rebuttal)s?\b[^,.;:]{0,60}\b(?:is|are|was|were|itself|turned out)\b[^,.;:]{0,20}"
    r"\b(?:fake|false|untrue|fabricated|forged|fraudulent|bogus|wrong|a hoax)"
    r"|\bden(?:y|ies|ied)\s+(?:ever\s+)?(?:having\s+)?(?:denying|denied)"
    r"|(?:辟谣|否认|澄清)(?:的)?(?:声明|公告|一事|说法|消息|帖子|推文|文章)(?:系|为|是|属|均为|也是|才是|并)?[^,。;]{0,4}(?:不实|虚假|伪造|假|谣言)"
    r"|(?:辟谣|否认|澄清)[^,。;:]{1,16}(?:声明|公告|帖子|推文)(?:系|为|是|属|均为)[^,。;]{0,4}(?:不实|虚假|伪造|假)"
    r"|(?:假|虚假|伪造)(?:的)?(?:辟谣|否认|澄清)"
)
_CORRECTING = (
    r"\b(?:correct(?:ion|s|ed|ing)|revis(?:es|ed|ing|ion)|erratum|amends?|amended|restat(?:es|ed))\b"
    r"|更正|勘误|修正|订正|纠正|误报|误写"
)
_CORRECTS_A_FIGURE = re.compile(
    rf"\A\W*(?:【[^】]*】|\[[^\]]*\])?\W*(?:{_CORRECTING})"
    rf"|(?:{_CORRECTING})[^.;。;]{{0,60}}?(?:\b(?:figures?|amounts?|numbers?|tally|loss(?:es)?|size|totals?|report(?:ed)?|statement)\b"
    r"|金额|数字|数量|损失|规模|此前|报道)"
    rf"|(?:金额|数字|数量|损失|规模)[^。;;]{{0,20}}(?:{_CORRECTING})"
)
"""A correction heads the text or has a figure as its object: a yearly target that is revised corrects no report."""
_SENTENCE_ENDS = re.compile(r"[;。;!?\n]|\.\s")
_SPEECH = re.compile(r"\b(?:post|posts|tweet|tweets|message|messages|announcement)\b|帖子|推文|消息|公告|言论")
_RELEASE = re.compile(r"\b(?:press|news)\s+releases?\b|新闻稿|通稿")
"""“Release” is a verb of launches, but a press release launches nothing."""


class Telling:
    """One parsed text. ``denial``: it denies a claim; ``refutes_denial``: it denies a denial of one."""

    def __init__(self, tables: Compiled, text: str) -> None:
        self.text = fold_han(text[:HEAD])
        self.low = _RELEASE.sub(" ", self.text.lower())
        self.sense = tables.grammar.sense(self.low)
        self.refutes_denial = _DENIAL_DENIED.search(self.low) is not None
        disowned = self.sense.account_hack and _SPEECH.search(self.low) is not None
        self.denial = (self.sense.denial or disowned) and not self.refutes_denial
        self.amounts = Amounts(self.low)
        self.corrected = Amounts(_correcting(self.low))
        """The amounts of the sentence that corrects; none where nothing is corrected."""

    @property
    def correction(self) -> bool:
        """Whether the text replaces an amount reported before, instead of denying the whole claim."""
        return bool(self.corrected.given) and (bool(self.corrected.wrong) or not self.denial)

    @property
    def modality(self) -> Modality:
        """The modality as far as the grammar tells it: denied, corrected, or asserted."""
        if self.correction:
            return "corrected"
        return "denied" if self.denial or self.refutes_denial else "asserted"


def _correcting(low: str) -> str:
    """Return the sentence that corrects a figure, with the one after it; the empty text if none does."""
    found = _CORRECTS_A_FIGURE.search(low)
    if found is None:
        return ""
    start = max((m.end() for m in _SENTENCE_ENDS.finditer(low, 0, found.end())), default=0)
    ends = [m.start() for m in _SENTENCE_ENDS.finditer(low, found.end())]
    return low[start : ends[1] if len(ends) > 1 else len(low)]
