"""What the offline rules read of a call: its untrusted parts by label, and the figures of our own code."""

from __future__ import annotations

import json
import re
from typing import Any

from schemas.effects import CallModel, Trusted, Untrusted

_FACTS = "Facts computed by code: "
_LANGUAGE = re.compile(r"(?:News item|Subject), .*, language ([a-z]+)")


def part_of(call: CallModel, label: str) -> str:
    """Return the text of the untrusted part with this label; empty without it."""
    return next((p.text for p in call.parts if isinstance(p, Untrusted) and p.label == label), "")


def parts_of(call: CallModel, label: str) -> list[tuple[str, str]]:
    """Return label and text of each untrusted part whose label starts so."""
    return [(p.label, p.text) for p in call.parts if isinstance(p, Untrusted) and p.label.startswith(label)]


def texts_of(call: CallModel, label: str) -> list[str]:
    """Return the text of each untrusted part whose label starts so."""
    return [text for _, text in parts_of(call, label)]


def language_of(call: CallModel) -> str | None:
    """Return the language of the news or of the subject, as its heading says."""
    matches = (_LANGUAGE.match(p.text) for p in call.parts if isinstance(p, Trusted))
    return next((m[1] for m in matches if m), None)


def facts_of(call: CallModel) -> dict[str, Any]:
    """Return the figures of our own code; empty without them. An untrusted part that imitates the line is not read."""
    lines = (p.text for p in call.parts if isinstance(p, Trusted) and p.text.startswith(_FACTS))
    return dict(json.loads(next(lines, _FACTS + "{}").removeprefix(_FACTS)))
