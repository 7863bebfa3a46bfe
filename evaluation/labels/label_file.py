"""Label files: CSV with a header line, or one JSON object a line; and the cases that their labels name. Pure.

A file is accepted or rejected as a whole: a single invalid line rejects it.
"""

from __future__ import annotations

import csv
import io
import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from schemas.errors import ConfigError, ContractError

Truth = Literal["true", "false", "partly", "unknown"]

SAMPLE_SOURCE = "sample"
"""Source of the labels that ship with the 42 sample events."""
_TRUTHS: tuple[str, ...] = get_args(Truth)
_FIELDS = ("case", "truth", "source", "note", "when")
_MAX_LISTED = 20
_OF_THE_SAMPLE = {"true": "true", "false": "false", "mixed": "partly"}


class Label(msgspec.Struct, frozen=True, kw_only=True):
    """The label of one source for one case. ``case`` is the name in the file; ``line`` is its line number, from 1."""

    case: str
    truth: str
    source: str
    note: str = ""
    labelled_at: datetime | None = None
    line: int


class LabelFile(msgspec.Struct, frozen=True, kw_only=True):
    """The content of one file. ``ignored`` are the fields that have no meaning here."""

    name: str
    labels: tuple[Label, ...]
    ignored: tuple[str, ...] = ()


def read_labels(path: Path, *, source: str = "") -> LabelFile:
    """Read a file; ``source`` applies where a line names none.

    Fields: case (what ``newsproof case`` takes), truth (true, false, partly or unknown), source, and perhaps note and
    when (ISO 8601, UTC without a zone). A file whose first character is ``{`` is JSON lines, any other CSV.

    Raises:
        ConfigError: the file cannot be read, is empty, or its header lacks a field.
        ContractError: lines are invalid; the message lists the first twenty.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be read ({exc.strerror}); name a CSV or JSONL file of labels") from exc
    except UnicodeDecodeError as exc:
        raise ContractError(f"{path} is not UTF-8: save it as UTF-8", reason="not_utf8") from exc
    if not text.strip():
        raise ConfigError(f"{path} is empty: write lines of {', '.join(_FIELDS[:3])}")
    rows = list(_json_lines(text) if text.lstrip().startswith("{") else _csv_lines(path, text, source))
    return _checked(path, rows, source)


def sample_labels() -> LabelFile:
    """Return the labels of the 42 sample events, from :data:`SAMPLE_SOURCE`. Events that were mixed are ``partly``."""
    lines = resources.files("infra.offline").joinpath("sample/history.jsonl").read_text("utf-8").splitlines()
    labels = tuple(
        Label(
            case=event["id"],
            truth=_OF_THE_SAMPLE[event["truth"]],
            source=SAMPLE_SOURCE,
            note=event["what_happened"],
            line=number,
        )
        for number, event in enumerate(map(json.loads, lines), start=1)
    )
    return LabelFile(name="the sample", labels=labels)


Line = tuple[int, Mapping[str, Any] | str]
"""Number of a line, and its fields or what is wrong with it."""


def _json_lines(text: str) -> Iterator[Line]:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError:
                yield number, "not JSON"
                continue
            yield number, row if isinstance(row, dict) else "not a JSON object"


def _csv_lines(path: Path, text: str, source: str) -> Iterator[Line]:
    reader = csv.reader(io.StringIO(text, newline=""))
    names = [cell.strip().lower() for cell in next(reader)]
    missing = [name for name in _FIELDS[:3] if name not in names and not (name == "source" and source)]
    if missing:
        hint = " (or give --source NAME)" if "source" in missing else ""
        raise ConfigError(f"{path}: its header lacks {', '.join(missing)}: add the column{hint}")
    for cells in reader:
        if any(cell.strip() for cell in cells):
            fits = len(cells) == len(names)
            wrong = f"{len(cells)} fields instead of {len(names)}"
            yield reader.line_num, dict(zip(names, cells, strict=True)) if fits else wrong


def _checked(path: Path, rows: list[Line], source: str) -> LabelFile:
    labels: list[Label] = []
    wrong: list[tuple[int, str]] = []
    seen: dict[tuple[str, str], int] = {}
    for number, row in rows:
        label = row if isinstance(row, str) else _label(number, row, source)
        if isinstance(label, Label):
            first = seen.setdefault((label.source, label.case), number)
            if first != number:
                label = f"{label.source} already labels {label.case} in line {first}"
        if isinstance(label, Label):
            labels.append(label)
        else:
            wrong.append((number, label))
    if wrong:
        listed = "\n".join(f"  line {line}: {text}" for line, text in wrong[:_MAX_LISTED])
        more = f"\n  … and {len(wrong) - _MAX_LISTED} more" if len(wrong) > _MAX_LISTED else ""
        raise ContractError(
            f"{path}: nothing was imported, {len(wrong)} lines are wrong; correct them:\n{listed}{more}",
            reason="bad_labels",
        )
    fields = {name for _, row in rows if not isinstance(row, str) for name in row}
    return LabelFile(name=path.name, labels=tuple(labels), ignored=tuple(sorted(fields - set(_FIELDS))))


def _label(number: int, row: Mapping[str, Any], source: str) -> Label | str:
    fields = {name: _text(row.get(name)) for name in _FIELDS}
    case, truth, by, when = fields["case"], fields["truth"].lower(), fields["source"] or source, fields["when"]
    if not case:
        return "no case: give a case id or the external id of its news"
    if truth not in _TRUTHS:
        return f"truth {fields['truth']!r:.40} must be one of {', '.join(_TRUTHS)}"
    if not by:
        return "no source: say who labelled the case, or give --source NAME for the whole file"
    try:
        at = datetime.fromisoformat(when) if when else None
    except ValueError:
        return f"when {when!r:.40} is not a time: write it like 2024-01-31 or 2024-01-31T14:00:00Z"
    if at is not None and at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return Label(case=case, truth=truth, source=by, note=fields["note"], labelled_at=at, line=number)


def _text(value: Any) -> str:
    if isinstance(value, bool):  # JSON's own true and false
        return str(value).lower()
    return "" if value is None else str(value).strip()


PREFIX_LENGTH = 4
"""Minimum length of a prefix of a case id."""


class KnownCase(msgspec.Struct, frozen=True):
    """A case of the tables. ``source`` and ``external_id`` are those of its news, empty if no longer known."""

    case_id: str
    source: str = ""
    external_id: str = ""


class Found(msgspec.Struct, frozen=True):
    """``cases`` pairs labels with case ids, in order; ``unknown`` and ``ambiguous`` are the others."""

    cases: tuple[tuple[Label, str], ...]
    unknown: tuple[Label, ...]
    ambiguous: tuple[tuple[Label, tuple[str, ...]], ...]


def find_cases(labels: Iterable[Label], known: Sequence[KnownCase]) -> Found:
    """Match each label with the one case that has its name: a case id, else an external id (or ``source:external_id``),
    else a prefix of a case id of at least :data:`PREFIX_LENGTH` characters."""
    ids = sorted({case.case_id for case in known})
    whole, by_news = set(ids), defaultdict[str, set[str]](set)
    for case in known:
        if case.external_id:
            by_news[case.external_id].add(case.case_id)
            by_news[f"{case.source}:{case.external_id}"].add(case.case_id)

    def candidates(name: str) -> tuple[str, ...]:
        if name in whole:
            return (name,)
        return tuple(sorted(by_news.get(name, ()))) or _with_prefix(ids, name.lower())

    matched: list[tuple[Label, str]] = []
    unknown: list[Label] = []
    ambiguous: list[tuple[Label, tuple[str, ...]]] = []
    for label in labels:
        matches = candidates(label.case)
        if len(matches) == 1:
            matched.append((label, matches[0]))
        elif matches:
            ambiguous.append((label, matches))
        else:
            unknown.append(label)
    return Found(tuple(matched), tuple(unknown), tuple(ambiguous))


def _with_prefix(ids: Sequence[str], prefix: str) -> tuple[str, ...]:
    if len(prefix) < PREFIX_LENGTH:
        return ()
    start = bisect_left(ids, prefix)
    return tuple(id for id in ids[start : start + 8] if id.startswith(prefix))
