"""JSON Schemas of the public records: news (from listeners), signals (for bots), config snapshots, journal events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import orjson

from schemas.config import Snapshot
from schemas.events import BY_WIRE_NAME, PREFIX, SCHEMA_VERSIONS
from schemas.news import News
from schemas.signals import SIGNAL_SCHEMA_VERSION, Signal

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schemas() -> dict[str, dict[str, Any]]:
    """Return the schemas by name and version, such as ``signal.v1``."""
    kinds: dict[str, Any] = {"news.v1": News, f"signal.v{SIGNAL_SCHEMA_VERSION}": Signal, "config.v1": Snapshot}
    kinds |= {
        f"event.{wire.removeprefix(PREFIX)}.v{SCHEMA_VERSIONS[wire]}": event for wire, event in BY_WIRE_NAME.items()
    }
    return {name: _schema(name, kind) for name, kind in kinds.items()}


def _schema(name: str, kind: Any) -> dict[str, Any]:
    (schema,), components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    if name.startswith("news."):
        # Unknown fields are kept at the top of the record; the field that holds them in memory is not on the wire.
        components["News"]["properties"].pop("unknown", None)
    return {"$schema": DIALECT, "$id": f"urn:newsproof:{name}", **schema, "$defs": components}


def write_schemas(directory: Path) -> list[Path]:
    """Write one file per schema; return the paths.

    Raises:
        OSError: the directory cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name, schema in json_schemas().items():
        path = directory / f"{name}.schema.json"
        path.write_bytes(orjson.dumps(schema, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        written.append(path)
    return written
