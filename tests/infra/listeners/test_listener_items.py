"""Canonical text, sketches and links, for all input."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from infra.listeners.items import Entry, canonical_link, item_of
from infra.listeners.sketches import changed, sketch
from infra.listeners.source import Source
from schemas.news import MAX_NEWS_BYTES

SOURCE = Source(id="x", kind="feed", url="https://x.example")
WORDS = st.lists(
    st.sampled_from([f"word{n}" for n in range(400)] + list("比特币交易所上线永续合约暂停提币")),
    min_size=60,
    max_size=120,
)


@given(
    st.text(max_size=400),
    st.text(max_size=800),
    st.text(max_size=60),
    st.one_of(st.none(), st.text(max_size=30), st.integers()),
)
def test_whatever_an_entry_says_its_item_is_fit_for_news_and_is_made_again_alike(title, text, guid, published) -> None:  # type: ignore[no-untyped-def]
    entry = Entry(title=title, text=text, guid=guid, link=guid, published=published)
    item = item_of(entry, SOURCE)
    assert item == item_of(entry, SOURCE)
    if item is not None:
        assert item.text.strip() == item.text != "" and len(item.text.encode()) <= MAX_NEWS_BYTES
        assert 0 < len(item.external_id) <= 512 and item.external_id.isprintable()


@given(WORDS)
def test_layout_changes_no_sketch_and_a_new_half_changes_most_of_it(words: list[str]) -> None:
    text = " ".join(words)
    assert changed(sketch(text), sketch("  ".join(words).upper().replace("WORD", "Word"))) == 0
    assert changed(sketch(text), sketch(" ".join(f"other{n}" for n in range(80)))) > 0.8


def test_a_changed_amount_in_a_flash_is_more_than_the_bound_and_a_byline_under_an_article_is_less() -> None:
    flash = "Bridge loses $10 million to an attacker who forged a signature on Tuesday"
    assert changed(sketch(flash), sketch(flash.replace("$10", "$100"))) > 0.15
    article = " ".join(f"sentence {n} says that the reserves of exchange {n * 7} are whole" for n in range(60))
    assert changed(sketch(article), sketch(f"{article} Edited by A. Person")) <= 0.15


@given(st.sampled_from(["", "id=7", "a=1&b=%E4%B8%AD", "q=a+b&utm_id=9"]), st.sampled_from(["", "#top"]))
def test_a_link_keeps_what_it_points_to_and_nothing_that_counts_readers(query: str, fragment: str) -> None:
    plain_link = canonical_link(f"https://a.example/p?{query}")
    tracked = canonical_link(f"https://a.example/p?{query}{'&' if query else ''}utm_source=x&fbclid=1{fragment}")
    assert plain_link == tracked == canonical_link(tracked)
    assert "utm_" not in tracked and tracked.startswith("https://a.example/p")
