"""Identifiers and hashes, which must be the same wherever and whenever they are computed.

All ids are UUID version 5 (RFC 9562) in their 36-character text form. Nothing here reads a clock or draws a
random number, so two workers that compute the successor of one head compute the same id.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
import uuid
from typing import Any

import msgspec

NAMESPACE = uuid.UUID("6c1d3c2e-5d1b-5d1f-9b0e-6e6577737072")
"""The project's UUID namespace; changing it would orphan every id in every log."""

LIVE_RUN = "live"
"""``run_id`` of the live pipeline; backtests use their own."""

RESEARCH_RUN = "research"
"""``run_id`` of research chats, so that queries about the pipeline do not include them."""

_NAMESPACE_BYTES = NAMESPACE.bytes


def uuid5(*parts: str) -> str:
    """Return the UUIDv5 text of the parts, joined by an unambiguous separator."""
    digest = bytearray(
        hashlib.sha1(_NAMESPACE_BYTES + "\x1f".join(parts).encode(), usedforsecurity=False).digest()[:16]
    )
    digest[6] = (digest[6] & 0x0F) | 0x50
    digest[8] = (digest[8] & 0x3F) | 0x80
    h = digest.hex()
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"


_NOT_KEPT_IN_ASCII = re.compile(r"[^a-z0-9$+<=>^`|~]+")


def normalise_text(text: str) -> str:
    """Return the text without differences of Unicode form (NFKC), case, invisible characters, white space and punctuation."""
    if text.isascii():  # the same result, faster
        return " ".join(_NOT_KEPT_IN_ASCII.sub(" ", text.lower()).split())
    folded = unicodedata.normalize("NFKC", text).casefold()
    kept = (c if unicodedata.category(c)[0] in "LNS" else " " for c in folded if unicodedata.category(c) != "Cf")
    return " ".join("".join(kept).split())


def text_hash(text: str) -> str:
    """Return 32 hex digits (128 bits of SHA-256) of the normalised text. Equal for copies that differ in layout only.

    A text of punctuation alone normalises to nothing; its raw bytes are hashed instead, so such texts stay apart.
    """
    return hashlib.sha256((normalise_text(text) or text).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def case_id(source: str, external_id: str, of_text: str) -> str:
    """Return the id of the case that this news item opens; ``of_text`` is the item's :func:`text_hash`."""
    return uuid5("case", source, external_id, of_text)


def part_id(first_case: str, asset: str) -> str:
    """Return the id of the case for a message's claim about this asset; ``first_case``: the one that the message opened."""
    return uuid5("part", first_case, asset)


def investigation_id(*given: str) -> str:
    """Return the id of the investigation requested under this key: the client's key, or ``watch`` and its trigger."""
    return uuid5("investigation", *given)


def event_id(run_id: str, case: str, head_id: str) -> str:
    """Return the id of the one successor that the head may have."""
    return uuid5("event", run_id, case, head_id)


def effect_id(run_id: str, case: str, head_id: str, request_hash: str) -> str:
    """Return the id of the ``EffectCompleted`` for one request at one head."""
    return uuid5("effect", run_id, case, head_id, request_hash)


def signal_id(run_id: str, case: str) -> str:
    """Return the id under which every revision of a case's signal is published."""
    return uuid5("signal", run_id, case)


_canonical = msgspec.json.Encoder(order="sorted")


def canonical_json(value: Any) -> bytes:
    """Return canonical JSON, whose bytes depend on the value alone (sorted keys, no white space, UTC times)."""
    return _canonical.encode(value)


def content_hash(value: Any) -> str:
    """Return 32 hex digits (128 bits of SHA-256) of the value's canonical JSON."""
    return hashlib.sha256(canonical_json(value)).hexdigest()[:32]
