"""Rewrite what is generated in the documentation: the marked blocks of README.md, architecture.md, sources.md and
research-chat.md, asyncapi.json and conformance.md; then what docs/schema.py writes of the tables.

    ./.venv/bin/python docs/generate.py

``tests/test_docs.py`` compares what stands there with what this would write. docs/settings.md, docs/cli.md and docs/lab.md come from
``newsproof config --markdown``, ``newsproof reference`` and ``python -P -m lab reference``.
"""

from __future__ import annotations

import ast
import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from agents.graphs import research, verification  # noqa: E402 - found by the line above, from wherever this is started
from infra.listeners.source import sources_of  # noqa: E402
from newsproof.app.version import VERSION  # noqa: E402
from newsproof.cli.operate.describe import json_schemas  # noqa: E402
from schemas.research_events import InvestigationAsked  # noqa: E402
from schemas.signals import SIGNAL_SCHEMA_VERSION  # noqa: E402
from schemas.topics import Topics  # noqa: E402
from tests.conformance.situations import page as conformance  # noqa: E402


def blocks() -> dict[str, dict[str, str]]:
    """Return page → marker → what stands between ``<!-- marker:begin -->`` and ``<!-- marker:end -->`` there."""
    bot = (PROJECT / "examples" / "minimal_bot.py").read_text("utf-8")
    readme = {"bot": f"```python\n{bot.strip()}\n```"}
    return {
        "README.md": readme,
        "README.zh.md": readme,
        "docs/architecture.md": {
            "tree": f"```\n{tree()}\n```",
            "flow": f"```mermaid\n{verification().mermaid()}\n```",
        },
        "docs/sources.md": {"table": sources()},
        "docs/research-chat.md": {"flow": f"```mermaid\n{research().mermaid()}\n```"},
        "docs/investigations.md": {"flow": f"```mermaid\n{research().mermaid(InvestigationAsked)}\n```"},
    }


def sources() -> str:
    """Return the table of every source that ships."""
    rows = ["| id | kind | address | on | official | every | shape | note |", "|---|---|---|---|---|---|---|---|"]
    for one in sources_of(None).values():
        address = f"`{one.url}`" if one.kind == "markets" else one.url.replace("&", "&amp;").replace("|", "&#124;")
        marks = ("yes" if one.default else "", "yes" if one.official else "", f"{one.every_s:g} s", one.evidence)
        needed = [f"Needs {name}." for name in ("LISTENER_CONTACT" * one.contact, one.key) if name]
        what = " ".join(filter(None, [one.terms_note, *needed]))
        rows.append(f"| {one.id} | {one.kind} | {address} | {' | '.join(marks)} | {what} |")
    return "\n".join(rows)


def tree() -> str:
    """Return every folder of the code down to the second level, a line each, with what it says of itself first."""
    lines = []
    for top in ("schemas", "agents", "infra", "streams", "evaluation", "newsproof", "lab"):
        inside = sorted(path for path in (PROJECT / top).iterdir() if path.is_dir() and has_files(path))
        for folder in (PROJECT / top, *inside):
            name = "  " * (len(folder.relative_to(PROJECT).parts) - 1) + folder.name + "/"
            lines.append(f"{name:<17}{re.sub(r':[a-z]+:|`', '', first_sentence(folder))}")
    return "\n".join(lines)


def has_files(folder: Path) -> bool:
    """Return False for what git does not know: compiled modules, and folders that a move left empty."""
    return any(path.is_file() and path.suffix != ".pyc" for path in folder.rglob("*"))


def first_sentence(folder: Path) -> str:
    """Return the first line of a package's docstring; of a folder without code, the line below its README's heading.

    Raises:
        FileNotFoundError: the folder has neither.
    """
    if (folder / "__init__.py").exists():
        return (ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or "").split("\n")[0]
    return (folder / "README.md").read_text("utf-8").split("\n")[2]


def with_blocks(page: str, text: str) -> str:
    """Return the page with every marked block as it has to be.

    Raises:
        LookupError: when a marker is missing.
    """
    for marker, block in blocks()[page].items():
        pattern = re.compile(rf"(<!-- {marker}:begin.*?-->\n).*?(<!-- {marker}:end -->)", re.DOTALL)
        text, count = pattern.subn(lambda m, block=block: f"{m[1]}{block}\n{m[2]}", text)
        if count != 1:
            raise LookupError(f"{page} has {count} blocks {marker!r}: put one pair of markers there")
    return text


def asyncapi() -> str:
    """Return the AsyncAPI 3.0 description of the two public topics, as JSON (which is YAML too)."""
    schemas, topics = json_schemas(), Topics()
    signal = f"signal.v{SIGNAL_SCHEMA_VERSION}"
    document: dict[str, Any] = {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Newsproof",
            "version": VERSION,
            "description": "Raw crypto news in, search-verified trading signals out. Topic names have the configurable "
            "prefix of NEWSPROOF_TOPIC_PREFIX; here it is the default one.",
        },
        "defaultContentType": "application/json",
        "servers": {"kafka": {"host": "localhost:9092", "protocol": "kafka", "description": "KAFKA_BOOTSTRAP_SERVERS"}},
        "channels": {
            "news": _channel(topics.news, "news", "Raw news. The key is source:external_id, in UTF-8."),
            "signals": _channel(
                topics.signals,
                "signal",
                "Revisions of signals, written in transactions: read them with isolation.level=read_committed. The key "
                "is the signal_id; within one signal_id the highest revision counts. The header ce_schemaversion is the "
                "schema of the payload. Described here is schema 2; records of schema 1, which had one field status for "
                "stage and verdict, stay on the topic. An SDK of before stops at the first record of schema 2: upgrade "
                "bots first. docs/architecture.md, under 'A signal', says how to read both.",
            ),
        },
        "operations": {
            "publishNews": _operation("receive", "news", "Newsproof reads what listeners write."),
            "publishSignals": _operation("send", "signals", "Newsproof writes what bots subscribe to."),
        },
        "components": {
            "messages": {
                "news": {"payload": _payload(schemas["news.v1"])},
                "signal": {"payload": _payload(schemas[signal]), "headers": _signal_headers()},
            }
        },
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _channel(address: str, message: str, description: str) -> dict[str, Any]:
    reference = {"$ref": f"#/components/messages/{message}"}
    return {"address": address, "description": description, "messages": {message: reference}}


def _operation(action: str, channel: str, summary: str) -> dict[str, Any]:
    return {"action": action, "channel": {"$ref": f"#/channels/{channel}"}, "summary": summary}


def _payload(schema: dict[str, Any]) -> dict[str, Any]:
    return {"schemaFormat": "application/schema+json;version=draft-2020-12", "schema": schema}


def _signal_headers() -> dict[str, Any]:
    names = {
        "ce_id": "id of this revision",
        "ce_type": "newsproof.signal",
        "ce_time": "when it was published (RFC 3339, UTC)",
        "ce_subject": "signal_id",
        "ce_schemaversion": "version of the payload",
        "ce_runid": "live",
        "np_causeid": "id of the journal event that it was made of",
        "np_journaltopic": "topic of that event",
        "np_journalpartition": "its partition",
        "np_journaloffset": "its offset",
        "np_revision": "revision",
    }
    return {"type": "object", "properties": {k: {"type": "string", "description": v} for k, v in names.items()}}


def main() -> None:
    """Write all of it."""
    for page in blocks():
        path = PROJECT / page
        path.write_text(with_blocks(page, path.read_text("utf-8")), "utf-8")
    (PROJECT / "docs" / "asyncapi.json").write_text(asyncapi(), "utf-8")
    (PROJECT / "docs" / "conformance.md").write_text(conformance(), "utf-8")
    runpy.run_path(str(PROJECT / "docs" / "schema.py"), run_name="__main__")


if __name__ == "__main__":
    main()
