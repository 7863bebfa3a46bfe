"""What a signal says of the evidence that it rests on."""

from __future__ import annotations

from agents.evidence.witnesses import CheckedPage
from agents.signal import _rests_on_titles
from tests import builders


def heard(*, passage: str, snippet: str = "Circle says reserves are whole", quoted: bool = True) -> CheckedPage:
    title = "Circle says reserves are whole"
    reference = builders.reference(1, passage, title=title, snippet=snippet, content_complete=False)
    return CheckedPage(reference=reference, stance="supports", quoted=quoted)


def test_a_signal_whose_pages_were_never_opened_says_so() -> None:
    rows = [
        ([], False),
        ([heard(passage="")], True),
        ([heard(passage="Circle says reserves are whole")], True),
        ([heard(passage="", quoted=False)], False),
        ([heard(passage="", snippet="Circle says reserves are whole. A report of Deloitte confirms it.")], False),
        ([heard(passage="In a statement Circle said that the reserves are whole.")], False),
        ([heard(passage=""), heard(passage="In a statement Circle said that the reserves are whole.")], False),
    ]
    assert [(supports, found) for supports, titles in rows if (found := _rests_on_titles(supports)) != titles] == []
