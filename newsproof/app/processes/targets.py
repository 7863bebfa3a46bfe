"""Addresses of `/metrics` of a data directory's processes: one file each, in Prometheus' `file_sd_configs` format.

Prometheus and the operations page read the same files (https://prometheus.io/docs/guides/file-sd/).
"""

from __future__ import annotations

import atexit
from pathlib import Path

import msgspec
import structlog

from infra.owner_only import make_owner_only, write_owner_only

log = structlog.get_logger(__name__)

FOLDER = "metrics"
_JOB = "newsproof-"


class _Group(msgspec.Struct):
    targets: list[str]
    labels: dict[str, str] = {}


class Target(msgspec.Struct, frozen=True):
    """A process that serves metrics. ``kind`` is worker, research or sink; ``url`` is its address without the page."""

    name: str
    kind: str
    url: str


def write_target(directory: Path, name: str, *, kind: str, address: str, path: str) -> None:
    """Write this process to the data directory until it ends cleanly. A killed process stays listed, as unreachable.

    Raises:
        ConfigError: the data directory cannot be created.
        OSError: the file cannot be written.
    """
    make_owner_only(directory)
    make_owner_only(directory / FOLDER)
    file = directory / FOLDER / f"{name}.json"
    labels = {"job": _JOB + kind, "instance": name, "__metrics_path__": f"{path}/metrics"}
    write_owner_only(file, msgspec.json.encode([_Group([address], labels)]).decode())
    atexit.register(file.unlink, missing_ok=True)


def targets_in(directory: Path) -> list[Target]:
    """Return the processes in a data directory's files, by name. A file that does not decode is logged and left out."""
    targets = []
    for file in sorted((directory / FOLDER).glob("*.json")):
        try:
            groups = msgspec.json.decode(file.read_bytes(), type=list[_Group])
        except (OSError, msgspec.MsgspecError) as exc:
            log.warning("names no targets of Prometheus: correct or delete it", file=str(file), error=str(exc)[:200])
            continue
        for group in groups:
            path = group.labels.get("__metrics_path__", "/metrics").removesuffix("/metrics")
            kind = group.labels.get("job", "").removeprefix(_JOB)
            targets += [Target(group.labels.get("instance", at), kind, f"http://{at}{path}") for at in group.targets]
    return targets
