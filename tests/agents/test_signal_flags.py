"""What a signal says of the evidence that it rests on."""

from __future__ import annotations

import pytest

from agents.evidence.witnesses import CheckedPage
from agents.signal import _rests_on_titles
from schemas.evidence import SearchReference


def heard(*, passage: str, snippet: str = "Circle says reserves are whole", quoted: bool = True) -> CheckedPage:
    reference = SearchReference(
        reference_number=1, source_tool="gdelt", title="Circle says reserves are whole", url="https://a.example/1",
        snippet=snippet, relevance_score=0.9, quality_score=80, content_complete=False, source_credibility="medium",
        query="q", passage=passage,
    )  # fmt: skip
    return CheckedPage(reference=reference, stance="supports", quoted=quoted)


@pytest.mark.parametrize(
    ("supports", "titles"),
    [
        ([], False),
        ([heard(passage="")], True),
        ([heard(passage="Circle says reserves are whole")], True),
        ([heard(passage="", quoted=False)], False),
        ([heard(passage="", snippet="Circle says reserves are whole. A report of Deloitte confirms it.")], False),
        ([heard(passage="In a statement Circle said that the reserves are whole.")], False),
        ([heard(passage=""), heard(passage="In a statement Circle said that the reserves are whole.")], False),
    ],
)
def test_a_signal_whose_pages_were_never_opened_says_so(supports: list[CheckedPage], titles: bool) -> None:
    assert _rests_on_titles(supports) is titles
