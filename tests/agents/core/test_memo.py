"""What was worked out of a case is worked out once, goes with the case, and changes nothing of it."""

from __future__ import annotations

import pickle

import pytest
from msgspec.structs import replace

from agents.core.memo import Memo
from agents.core.model_calls import bounded
from tests.specification import case_after, opened


def test_a_function_is_asked_once_for_arguments_of_one_value() -> None:
    asked: list[tuple[str, int]] = []

    def counted(text: str, times: int) -> str:
        asked.append((text, times))
        return text * times

    known = Memo()
    assert [known.once(counted, "ab", n) for n in (2, 2, 3, 2)] == ["abab", "abab", "ababab", "abab"]
    assert asked == [("ab", 2), ("ab", 3)]
    assert Memo().once(counted, "ab", 2) == "abab"
    assert len(asked) == 3


def test_two_functions_have_values_of_their_own_and_none_is_a_value() -> None:
    known = Memo()
    assert (known.once(str, 1), known.once(float, 1)) == ("1", 1.0)
    made: list[int] = []
    assert [known.once(made.append, 7), known.once(made.append, 7)] == [None, None]
    assert made == [7]
    with pytest.raises(TypeError, match="by position"):
        Memo().once(int, "7", base=8)


def test_a_case_takes_along_what_was_worked_out_and_is_equal_without_it() -> None:
    case = case_after(opened("Binance lists PEPE"))
    later = replace(case, seq=case.seq + 1)
    assert later.memo is case.memo
    case.memo.once(str, 1)
    fresh = replace(case, memo=Memo())
    assert fresh == case
    assert pickle.loads(pickle.dumps(case.memo)) == Memo()


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "two\nlines\tand more",
        "zero\u200bwidth",
        "soft\u00adhyphen",
        "bell\x07",
        "a\u00a0b",
        "私\ue000用",
        "",
        "x" * 9,
    ],
)
@pytest.mark.parametrize("limit", [0, 3, 100])
def test_a_bounded_text_loses_what_is_hidden_before_it_is_cut(text: str, limit: int) -> None:
    hidden = {"\u200b", "\u00ad", "\x07", "\ue000"}
    assert bounded(text, limit) == "".join(c for c in text if c not in hidden)[:limit]
