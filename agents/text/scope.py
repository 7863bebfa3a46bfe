"""The scope of a denial: whether it denies the claim, a delay, or another matter.

“It denied rumours of a delay and confirmed the listing” does not deny the listing. A denial applies to the claim
unless its object is clearly something else. Only then is its clause removed from the text before further reading.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from agents.text.matching import CJK, Words, has_cjk, words_pattern

_ENDS = re.compile(
    r"[,;:!?。]|\.(?:\s|$)|\s(?:but|while|although|though|whereas|yet)\s"
    r"|\s(?:and|then)\s(?=(?:also\s|has\s|have\s)?(?:confirm|said|says|say|added|adds|insist|announc|reiterat|repeat|call|went|go|plan|will|is|are|was|were)\w*\b)"
)
"""The characters and words that end the scope of a denial."""
_ABOUT = re.compile(
    r"\b(?:rumou?rs?|reports?|claims?|speculation|talks?|stories|story|allegations?|suggestions?|chatter|posts?|news)\s+"
    r"(?:of|about|that|on|regarding|over|claiming|concerning|suggesting|it|he|she|they)\s+(?P<en>.+)"
    r"|(?:关于|有关|对于|针对|所谓|就)(?P<zh>[^,,。;;]{2,30}?)(?:的)?(?:传闻|传言|消息|报道|说法|谣言|猜测|一事|是|不实|属)"
)
_EN_WORD = re.compile(r"[a-z][a-z'-]{2,}|\d[\d,.]*")
_ZH_RUN = re.compile(rf"[{CJK}]{{2,}}")
_STEM = 6
_ENDINGS = ("ations", "ation", "ments", "ment", "ings", "ing", "ies", "ers", "ed", "es", "er", "al", "s", "e", "y")


def stem(word: str) -> str:
    """Return a rough common stem of an English word's forms: leaving, leaves and leave give ``leav``."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word.removesuffix(ending)
            break
    return word[:_STEM]


class Target(frozenset[str]):
    """The stems of a text's specific subject: English words by their first letters, Chinese pairs of characters."""


class Scope:
    """Removes denials of other matters from a text. Word lists: ``denial_acts``, ``elsewhere``, ``plain_words``."""

    def __init__(self, lexicon: Mapping[str, tuple[str, ...]]) -> None:
        self._acts = Words(lexicon.get("denial_acts", ()))
        self._elsewhere = Words(lexicon.get("elsewhere", ()))
        plain = (*lexicon.get("plain_words", ()), *lexicon.get("speech_nouns", ()), *lexicon.get("denial_acts", ()))
        self._plain_zh = re.compile(words_pattern(w for w in plain if has_cjk(w)))
        self._plain_en = frozenset(stem(w.lower().rstrip("*")) for w in plain if not has_cjk(w))
        self._causes = Words(lexicon.get("causes", ()))
        self._beside = Words(lexicon.get("beside", ()))

    def postpones(self, text: str) -> bool:
        """Return whether a claim (in lower case) is itself about a delay or a cancellation."""
        return self._elsewhere.search(text) is not None

    def is_beside(self, text: str) -> bool:
        """Return whether a text (in lower case) is about a circumstance of an event, such as who did it or knew of it."""
        return self._beside.search(text) is not None

    def target(self, text: str, names: frozenset[str] = frozenset()) -> Target:
        """Return the specific subject of a text (in lower case), without names and unspecific words."""
        words = {stem(w) for w in _EN_WORD.findall(text) if w not in names}
        words -= self._plain_en
        for run in _ZH_RUN.findall(self._plain_zh.sub(" ", text)):
            words |= {run[i : i + 2] for i in range(len(run) - 1)}
        return Target(words)

    def without_other_matters(
        self,
        text: str,
        *,
        denial: Callable[[str], bool],
        on_claim: Callable[[str], bool],
        claim: Target,
        postpones: bool,
        beside: bool,
        stated: bool,
    ) -> str:
        """Return the text (lower case) without the clauses that deny something other than the claim.

        ``denial`` decides whether a clause denies, and ``on_claim`` whether words are about the claim. ``beside``: the
        claim itself is about a circumstance of an event. ``stated``: the page states the claim elsewhere; without that, a
        denial in other words still counts.
        """
        kept = []
        for clause in _clauses(text):
            if denial(clause) and self._is_of_another_matter(
                clause, on_claim, claim, postpones=postpones, beside=beside, stated=stated
            ):
                continue
            kept.append(clause)
        return "".join(kept)

    def _is_of_another_matter(
        self,
        clause: str,
        on_claim: Callable[[str], bool],
        claim: Target,
        *,
        postpones: bool,
        beside: bool,
        stated: bool,
    ) -> bool:
        object_ = self._object(clause)
        if object_ is None:
            return False
        if not postpones and self._elsewhere.search(object_):
            return True
        if self._causes.search(object_) and not self._causes.search(" ".join(sorted(claim))):
            return True  # Denying only the cause admits that it happened.
        if not beside and self.is_beside(object_):
            return True  # “Denies that the hack was an inside job” admits the hack.
        if not stated or on_claim(object_):
            return False
        target = self.target(object_)
        # Words in another script cannot be compared, so a denial of reports there counts as a denial of the claim.
        if _ABOUT.search(clause) and not any(has_cjk(t) == has_cjk(c) for t in target for c in claim):
            return False
        return len(target) > 1 and not target & claim

    def _object(self, clause: str) -> str | None:
        about = _ABOUT.search(clause)
        if about is not None:
            return about["en"] or about["zh"]
        act = self._acts.search(clause)
        if act is None:
            return None
        after = clause[act.end() :]
        # “对收购一事予以否认”, “the purchase was denied by both”: the object comes first.
        return after if self.target(after) and not after.lstrip().startswith("by ") else clause[: act.start()]


def _clauses(text: str) -> list[str]:
    """Split after the ends of clauses. Each end stays with its clause, so joining the parts gives the text again."""
    parts, start = [], 0
    for match in _ENDS.finditer(text):
        parts.append(text[start : match.end()])
        start = match.end()
    parts.append(text[start:])
    return parts
