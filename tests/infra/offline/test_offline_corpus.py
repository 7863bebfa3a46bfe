"""The bundled search corpus is decodable, labels nothing, and is synthetic throughout."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import urlsplit

OFFLINE = Path(__file__).resolve().parents[3] / "infra" / "offline"
FILES = sorted((OFFLINE / "corpus").glob("*.jsonl"))
DOCUMENTS = [json.loads(line) for file in FILES for line in file.read_text("utf-8").splitlines()]
EVENTS = [json.loads(line) for line in (OFFLINE / "sample" / "history.jsonl").read_text("utf-8").splitlines()]
UNDATED = {"id", "url", "title", "content", "lang"}


def test_every_document_has_the_public_fields_a_readable_length_and_an_id_and_address_of_its_own() -> None:
    assert len(DOCUMENTS) >= 168
    for document in DOCUMENTS:
        assert set(document) - {"published_at"} == UNDATED
        assert all(isinstance(value, str) and value.strip() == value != "" for value in document.values())
        assert re.fullmatch(r"d\d{4}", document["id"]) and 60 <= len(document["content"]) <= 500, document["id"]
        chinese = len(re.findall(r"[\u4e00-\u9fff]", document["content"])) > 25
        assert document["lang"] == ("zh" if chinese else "en"), document["id"]
    for field in ("id", "url"):
        assert len({document[field] for document in DOCUMENTS}) == len(DOCUMENTS)


def test_no_address_in_it_is_of_a_real_host() -> None:
    assert "synthetic" in (OFFLINE / "corpus" / "README.md").read_text("utf-8").splitlines()[0]
    for file in FILES:
        written = file.read_text("utf-8")
        hosts = re.findall(r"(?:https?://|www\.)([\w.-]+)", written)
        assert hosts and all(host.rstrip(".").endswith(".example") for host in hosts), file
    hosts = [urlsplit(document["url"]).hostname or "" for document in DOCUMENTS]
    assert any(host.endswith("sec-gov.example") for host in hosts), "a look-alike"


def test_nothing_in_it_links_a_document_to_a_sample_event_or_its_label() -> None:
    ids, labels = {event["id"] for event in EVENTS}, {"truth", "what_happened", "official_domain", "event_type"}
    for file in FILES:
        assert (ids | labels).isdisjoint(re.findall(r"\w+", file.read_text("utf-8")))


def test_pages_that_steer_a_reader_are_there_in_both_languages() -> None:
    steering = re.compile(r"ignore previous instructions|忽略之前的(所有)?指令", re.IGNORECASE)
    assert {d["lang"] for d in DOCUMENTS if steering.search(d["content"])} == {"en", "zh"}
