"""The bundled search corpus is decodable, unlabelled, and holds usable evidence for every sample event."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

OFFLINE = Path(__file__).resolve().parents[3] / "infra" / "offline"
CORPUS_FILES = sorted((OFFLINE / "corpus").glob("*.jsonl"))
UNDATED = {"id", "url", "title", "content", "lang"}
FIELDS = UNDATED | {"published_at"}
CJK = re.compile(r"[\u4e00-\u9fff]+")
WORD = re.compile(r"[$]?\d+(?:[.,]\d+)*[a-z]*|[a-z]+")
# Three days: how long before an event a page still counts as a report of it in these tests.
REPORTING_WINDOW = timedelta(days=3)
# Chosen by looking at the scores: low enough for a report in other words. Unrelated pages reach up to 0.2
# as well, so it means something only inside the window above.
MIN_SIMILARITY = 0.12
NOT_SUPPORTING = re.compile(
    r"fake|false|not true|denie[sd]|fraudulent|unconfirmed|could not be verified|rumou?r|scam"
    r"|不实|伪造|未经证实|辟谣|传闻",
    re.IGNORECASE,
)
# Which site speaks for the claim. The corpus must not say so, a test has to.
OFFICIAL_SITES = {
    "h02": {"sec.example", "tesla.example"}, "h04": {"tesla.example"}, "h07": {"polynetwork.example"},
    "h08": {"asamblea.example"}, "h41": {"walmart.example", "litecoin.example"}, "h10": {"pbc.example"},
    "h12": {"wormhole.example"}, "h13": {"roninchain.example"}, "h14": {"lfg.example"}, "h15": {"celsius.example"},
    "h16": {"ethereum.example"}, "h17": {"bnbchain.example"}, "h19": {"ftx.example", "uscourts.example"},
    "h21": {"mazars.example", "binance.example"}, "h22": {"circle.example"}, "h24": {"sec.example"},
    "h25": {"sec.example"}, "h27": {"curve.example", "vyper.example"},
    "h29": {"uscourts.example", "grayscale.example"}, "h32": {"justice.example", "treasury.example"},
    "h42": {"sec.example"}, "h34": {"sec.example"}, "h36": {"dmm.example"}, "h37": {"wazirx.example"},
    "h39": {"bybit.example"}, "h40": {"coinglass.example", "binance.example"},
}  # fmt: skip

NAMED_IN_FALSE_CLAIMS = {
    "amazon.example", "binance.example", "blackrock.example", "coinbase.example", "fbi.example", "google.example",
    "interpol.example", "justice.example", "kroger.example", "litecoin.example", "sec.example", "treasury.example",
    "twitter.example", "walmart.example",
}  # fmt: skip


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().decode("utf-8").splitlines()]


DOCUMENTS = [document for path in CORPUS_FILES for document in read_jsonl(path)]
DATED = [document for document in DOCUMENTS if "published_at" in document]
EVENTS = read_jsonl(OFFLINE / "sample" / "history.jsonl")


def time_of(record: dict[str, Any]) -> datetime:
    return datetime.strptime(record["published_at"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def registrable(document: dict[str, Any]) -> str:
    return ".".join((urlsplit(document["url"]).hostname or "").split(".")[-2:])


def full_text(document: dict[str, Any]) -> str:
    return f"{document['title']} {document['content']}"


def terms(text: str) -> Counter[str]:
    lowered = text.lower()
    # Six letters stand for a word: "liquidated" has to meet "liquidation".
    found = Counter(word[:6] for word in WORD.findall(lowered))
    for run in CJK.findall(lowered):
        found.update(run[i : i + 2] for i in range(len(run) - 1))
    return found


@cache
def document_frequency() -> Counter[str]:
    return Counter(term for document in DOCUMENTS for term in set(terms(full_text(document))))


@cache
def vector(text: str) -> dict[str, float]:
    weights = {
        term: (1 + math.log(count)) * math.log((1 + len(DOCUMENTS)) / (1 + document_frequency()[term]))
        for term, count in terms(text).items()
    }
    norm = math.sqrt(sum(weight * weight for weight in weights.values()))
    return {term: weight / norm for term, weight in weights.items()}


def similarity(left: str, right: str) -> float:
    a, b = vector(left), vector(right)
    return sum(weight * b[term] for term, weight in a.items() if term in b)


def reports_before(event: dict[str, Any]) -> list[dict[str, Any]]:
    """Documents of the last days before the event which share its terms, best first."""
    scored = [
        (similarity(event["text"], full_text(document)), document)
        for document in DATED
        if timedelta(0) <= time_of(event) - time_of(document) <= REPORTING_WINDOW
    ]
    kept = [pair for pair in scored if pair[0] >= MIN_SIMILARITY]
    return [document for _, document in sorted(kept, key=lambda pair: (-pair[0], pair[1]["id"]))]


def shingles(text: str) -> set[str]:
    plain = re.sub(r"\W+", "", text.lower())
    return {plain[i : i + 6] for i in range(max(1, len(plain) - 5))}


@cache
def near_duplicates() -> tuple[tuple[str, str], ...]:
    texts = {document["id"]: shingles(document["content"]) for document in DOCUMENTS}
    return tuple(
        (left, right) for (left, a), (right, b) in combinations(texts.items(), 2) if len(a & b) / len(a | b) >= 0.6
    )


def ids_of_events(condition: str) -> list[Any]:
    return [pytest.param(event, id=event["id"]) for event in EVENTS if condition in ("any", event["truth"])]


def test_every_document_has_exactly_the_public_fields_and_readable_lengths() -> None:
    assert len(DOCUMENTS) >= 168
    for document in DOCUMENTS:
        assert set(document) in (FIELDS, UNDATED)
        assert all(isinstance(value, str) and value.strip() == value != "" for value in document.values())
        assert 60 <= len(document["content"]) <= 500, document["id"]
        assert document["lang"] == ("zh" if len("".join(CJK.findall(document["content"]))) > 25 else "en")


def test_every_host_lies_under_the_reserved_name_and_urls_and_ids_are_unique() -> None:
    for document in DOCUMENTS:
        parts = urlsplit(document["url"])
        assert parts.scheme == "https"
        assert (parts.hostname or "").endswith(".example"), document["url"]
    assert len({document["url"] for document in DOCUMENTS}) == len(DOCUMENTS)
    assert len({document["id"] for document in DOCUMENTS}) == len(DOCUMENTS)


def test_dates_are_utc_and_each_file_is_ordered_by_them() -> None:
    for path in CORPUS_FILES:
        times = [time_of(document) for document in read_jsonl(path) if document in DATED]
        assert times == sorted(times)


def test_nothing_in_the_corpus_links_a_document_to_a_sample_event_or_its_label() -> None:
    event_ids = {event["id"] for event in EVENTS}
    label_fields = {key for event in EVENTS for key in event} - {"id", "published_at", "lang", "text"}
    assert label_fields.isdisjoint(FIELDS)
    for path in CORPUS_FILES:
        words = set(re.findall(r"\w+", path.read_text("utf-8")))
        assert event_ids.isdisjoint(words)
        assert not {"truth", "what_happened", "official_domain", "event_type"} & words
    assert all(re.fullmatch(r"d\d{4}", document["id"]) for document in DOCUMENTS)


def test_no_sentence_of_the_labels_is_copied_into_a_document() -> None:
    corpus = "\n".join(full_text(document) for document in DOCUMENTS).lower()
    for event in EVENTS:
        for sentence in re.split(r"[.;:] ?", event["what_happened"].lower()):
            assert len(sentence) < 30 or sentence not in corpus, sentence


@pytest.mark.parametrize("event", ids_of_events("any"))
def test_an_event_finds_at_least_four_documents_of_its_days_by_their_text(event: dict[str, Any]) -> None:
    assert len(reports_before(event)) >= 4


@pytest.mark.parametrize("event", ids_of_events("true"))
def test_a_true_event_finds_an_official_page_and_three_independent_outlets(event: dict[str, Any]) -> None:
    found = reports_before(event)
    second_copies = {right for _, right in near_duplicates()}
    official = [document for document in found if registrable(document) in OFFICIAL_SITES[event["id"]]]
    press = {registrable(document) for document in found if document["id"] not in second_copies}
    assert official
    assert len(press - OFFICIAL_SITES[event["id"]]) >= 3


@pytest.mark.parametrize("event", ids_of_events("false"))
def test_a_false_event_finds_a_denial_or_a_hedge_among_its_first_reports(event: dict[str, Any]) -> None:
    doubting = [document for document in reports_before(event)[:8] if NOT_SUPPORTING.search(full_text(document))]
    assert len(doubting) >= 2


@pytest.mark.parametrize("event", ids_of_events("false"))
def test_no_official_page_supports_a_false_event(event: dict[str, Any]) -> None:
    official = [document for document in reports_before(event) if registrable(document) in NAMED_IN_FALSE_CLAIMS]
    assert all(NOT_SUPPORTING.search(full_text(document)) for document in official), official


def test_some_false_events_are_denied_by_an_official_page_in_time() -> None:
    denied = {
        event["id"]
        for event in EVENTS
        for document in reports_before(event)
        if event["truth"] == "false" and registrable(document) in NAMED_IN_FALSE_CLAIMS
    }
    assert len(denied) >= 5


def test_copies_are_few_and_lie_on_other_hosts() -> None:
    by_id = {document["id"]: document for document in DOCUMENTS}
    assert 6 <= len(near_duplicates()) <= 20
    for left, right in near_duplicates():
        assert registrable(by_id[left]) != registrable(by_id[right])


def test_look_alike_hosts_and_steering_texts_are_there_in_both_languages() -> None:
    hosts = {registrable(document) for document in DOCUMENTS}
    assert "sec-gov.example" in hosts
    assert any(host.startswith("xn--") for host in hosts)
    steering = re.compile(r"ignore previous instructions|忽略之前的(所有)?指令", re.IGNORECASE)
    languages = {document["lang"] for document in DOCUMENTS if steering.search(document["content"])}
    assert languages == {"en", "zh"}


def test_some_events_also_find_later_pages_and_some_find_old_ones() -> None:
    later, old = set(), set()
    for event in EVENTS:
        for document in DATED:
            if similarity(event["text"], full_text(document)) < MIN_SIMILARITY:
                continue
            age = time_of(event) - time_of(document)
            if timedelta(days=-60) < age < timedelta(0):
                later.add(event["id"])
            if age > timedelta(days=30):
                old.add(event["id"])
    assert len(later) >= 10
    assert len(old) >= 5


def test_the_first_line_of_the_readme_says_that_all_of_it_is_synthetic() -> None:
    assert "synthetic" in (OFFLINE / "corpus" / "README.md").read_text("utf-8").splitlines()[0]
