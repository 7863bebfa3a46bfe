"""Patterns that read what strangers wrote take time in proportion to its length, whatever it is made of."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from agents.analysis.numbers import written
from agents.planning import query_builder
from agents.text.injection import steers_model
from infra.clickhouse.statement import split_statements
from infra.models.replies import _FENCE
from infra.offline.lexicon import EVENT_WORDS
from infra.pages.markup import MAX_STYLE, hides
from tests.processor_time import seconds

pytestmark = pytest.mark.security


def all_of(pattern: re.Pattern[str]) -> Callable[[str], object]:
    return lambda text: [match.end() for match in pattern.finditer(text)]


EVENTS = [pattern for _, (pattern, _) in EVENT_WORDS.items()]


@pytest.mark.parametrize(
    ("read", "beginning", "piece"),
    [
        pytest.param(all_of(query_builder._AMOUNT), "SOL", "1", id="amounts of a query"),
        pytest.param(lambda text: list(written(text)), "", "\n", id="numbers of a list"),
        pytest.param(lambda text: [list(p.finditer(text)) for p in EVENTS], "", "paus", id="words of events"),
        pytest.param(_FENCE.match, "```\n", "\n", id="fence around JSON"),
        pytest.param(_FENCE.match, "```", " \n", id="beginning of a fence"),
        pytest.param(steers_model, "[", " ", id="imitated marks"),
        pytest.param(split_statements, "", "'\\", id="quotes of a statement that never close"),
        pytest.param(split_statements, "", "$a", id="heredocs of a statement that never close"),
        pytest.param(split_statements, "", "/* ", id="comments of a statement that never close"),
        pytest.param(split_statements, "", "“", id="curly quotes of a statement that never close"),
    ],
)
def test_four_times_the_text_takes_about_four_times_as_long(
    read: Callable[[str], object], beginning: str, piece: str
) -> None:
    short, long = (seconds(read, beginning + piece * (size // len(piece))) for size in (8_000, 32_000))
    assert long < max(0.1, 10 * short)


@pytest.mark.parametrize(
    ("beginning", "piece"),
    [
        *(("", piece) for piece in ("/*", "/* ", "/* *", "\\6", ";", "a:", "font-size:0", " ")),
        *(("font-size:", piece) for piece in ("0", ".0", "1", "0 ")),
        *((f"{name}:", "0") for name in ("opacity", "left", "width", "clip", "padding")),
        *(("font:", piece) for piece in ("0", " ", "0 ", "/")),
        *(("color:", piece) for piece in ("rgba(", "rgb(,,,", "#0", ",")),
        *(("color:rgb(,,,", piece) for piece in ("0", ",0")),
        *(("left:-", piece) for piece in ("0", "9")),
        *(("transform:", piece) for piece in ("scale(", "scale(0", "scale(,", "scalex", "matrix(")),
        *(("filter:", piece) for piece in ("opacity(", "opacity(0", "0")),
        ("clip:rect(", "0,"),
    ],
)
@pytest.mark.parametrize("ending", ["x", "y"])
def test_the_longest_style_that_is_judged_is_judged_at_once(beginning: str, piece: str, ending: str) -> None:
    style = (beginning + piece * MAX_STYLE)[: MAX_STYLE - 1] + ending
    assert seconds(hides, style) < 0.01
    assert seconds(hides, beginning + piece * 1_000_000) < 0.01
