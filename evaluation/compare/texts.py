"""Makes untrusted text safe to display, and diffs the texts of two cases."""

from __future__ import annotations

import difflib
import re

import msgspec

from evaluation.compare.rows import HOW_NOT_WHAT, CaseText

MAX_LINES = 60
MAX_LINE = 300
"""Limits of a diff in lines and characters, since a signal may carry forty pages of evidence."""

_UNSHOWN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff\ud800-\udfff]"
)
"""Control characters, terminal escapes, bidirectional controls, and characters that XML does not allow."""
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])\s*|\n")


def visible(text: str) -> str:
    """Return the text on one line with every character that would not be seen written as ``\\u…``."""
    return _UNSHOWN.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def changes_summary(changes: str) -> str:
    """Return a summary of what a run changed, from the JSON in the table ``runs``, without the prompts' texts."""
    try:
        found = msgspec.json.decode(changes, type=_Changes)
    except msgspec.DecodeError:
        return visible(changes)[:MAX_LINE]
    prompts = [f"{name} v{p.version} ({p.hash[:8]})" for name, p in sorted(found.prompts.items())]
    models = [f"{task} by {model}" for task, model in sorted(found.models.items())]
    return visible(", ".join((*prompts, *models))) or "nothing changed"


class _ChangedPrompt(msgspec.Struct):
    version: str
    hash: str


class _Changes(msgspec.Struct):
    prompts: dict[str, _ChangedPrompt]
    models: dict[str, str] = {}
    primary: str = ""


def declared_primary(changes: str) -> str:
    """Return the metric that a run declared as primary before it ran, from the JSON in the table ``runs``; "" for none."""
    try:
        return msgspec.json.decode(changes, type=_Changes).primary
    except msgspec.DecodeError:
        return ""


def difference(a: CaseText | None, b: CaseText | None) -> tuple[str, ...]:
    """Return a unified diff of two cases' texts, safe to display; each field and each sentence of the notes is a line."""
    whole = bool(a and a.signal and b and b.signal)
    before, after = _lines(a, whole=whole), _lines(b, whole=whole)
    # Without the two file headers and the hunk positions.
    found = [line for line in list(difflib.unified_diff(before, after, n=1, lineterm=""))[2:] if line[:2] != "@@"]
    shown = [line if len(line) <= MAX_LINE else line[: MAX_LINE - 1] + "…" for line in found[:MAX_LINES]]
    if len(found) > MAX_LINES:
        shown.append(f" … and {len(found) - MAX_LINES} lines more")
    return tuple(shown)


def _lines(text: CaseText | None, *, whole: bool) -> list[str]:
    if text is None:
        return ["(no signal)"]
    fields: object = text.fields
    if whole:
        try:
            fields = msgspec.json.decode(text.signal)
        except msgspec.DecodeError:
            fields = {"signal": text.signal}
    if isinstance(fields, dict):
        fields = {name: value for name, value in fields.items() if name not in ("notes", *HOW_NOT_WHAT)}
    lines = msgspec.json.format(msgspec.json.encode(fields), indent=1).decode().splitlines()
    sentences = [part.strip() for part in _SENTENCE.split(text.notes) if part.strip()]
    return [visible(line) for line in lines if line.strip(" {}[],")] + [visible(f"notes: {part}") for part in sentences]
