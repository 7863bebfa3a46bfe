"""Print what an installation consists of, as a CycloneDX 1.6 SBOM (JSON): locked packages, 46 jars, vendored files.

    .venv/bin/python docs/sbom.py > newsproof.cdx.json

Made of requirements.lock, kafka_jars.txt and docs/licences.md alone: on every machine the same bytes, without a network.
Hashes are those that an installation is checked by. A package has one for each file that its version was published
as (which of them is installed depends on the platform); a jar has its own.
"""

from __future__ import annotations

import json
import sys
import tomllib
import uuid
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from licences import PROJECT, VENDORED, VENDORED_SHA256, Locked, locked_packages, written

from infra.embedded.kafka.jars import PinnedJar, read_pins


def sbom() -> dict[str, Any]:
    """Return the document. Its serial number is derived from its content, and it carries no time.

    Raises:
        KeyError: docs/licences.md lacks a package or a jar: run docs/licences.py first.
    """
    licences = {key: licence for key, (licence, _) in written().items()}
    components = [_package(one, licences[one.name, one.version]) for one in locked_packages()]
    components += [_jar(pin, licences[tuple(pin.coordinates.rsplit(":", 1))]) for pin in read_pins()]  # type: ignore[index]
    components += [_vendored(name, version, licence) for name, version, licence, _ in VENDORED]
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    ours = _component(
        "application", f"pkg:pypi/{project['name']}@{project['version']}", project["name"], project["version"]
    )
    document: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": ours | {"licenses": [{"expression": project["license"]}]}},
        "components": components,
        "dependencies": [{"ref": ours["bom-ref"], "dependsOn": [one["bom-ref"] for one in components]}],
    }
    content = json.dumps(document, sort_keys=True)
    return document | {"serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}"}


def _component(kind: str, purl: str, name: str, version: str) -> dict[str, Any]:
    return {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl}


def _package(one: Locked, licence: str) -> dict[str, Any]:
    # The hashes stand at the place of distribution, for a component has one content and a version has many files.
    files = {
        "type": "distribution",
        "url": f"https://pypi.org/project/{one.name}/{one.version}/#files",
        "hashes": [{"alg": "SHA-256", "content": content} for content in sorted(one.sha256)],
    }
    component = _component("library", f"pkg:pypi/{one.name}@{one.version}", one.name, one.version)
    component |= {"licenses": [{"expression": licence}], "externalReferences": [files]}
    return component | ({"properties": [{"name": "newsproof:only-where", "value": one.marker}]} if one.marker else {})


def _vendored(name: str, version: str, licence: str) -> dict[str, Any]:
    hashes = [{"alg": "SHA-256", "content": VENDORED_SHA256[name]}]
    component = _component("library", f"pkg:npm/{name}@{version}", name, version)
    return component | {"hashes": hashes, "licenses": [{"expression": licence}]}


def _jar(pin: PinnedJar, licence: str) -> dict[str, Any]:
    group, artifact, version = pin.coordinates.split(":")
    component = _component("library", f"pkg:maven/{group}/{artifact}@{version}?type=jar", artifact, version)
    hashes = [{"alg": "SHA-256", "content": pin.sha256}]
    return component | {"group": group, "hashes": hashes, "licenses": [{"expression": licence}]}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(sbom(), indent=2, sort_keys=True) + "\n")
