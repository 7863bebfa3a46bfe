"""docs/licences.md and the SBOM say what the lock files say, and the SBOM is one by CycloneDX's own schema."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cyclonedx.model.bom import Bom
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from license_expression import get_spdx_licensing

from infra.embedded.kafka.jars import read_pins

PROJECT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def licences() -> ModuleType:
    spec = importlib.util.spec_from_file_location("licences", PROJECT / "docs" / "licences.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["licences"] = module  # its dataclass looks itself up there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def printed() -> str:
    command = [sys.executable, str(PROJECT / "docs" / "sbom.py")]
    return subprocess.run(command, cwd="/", capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def sbom(printed: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(printed)
    return found


def test_the_page_is_what_the_packages_and_the_jars_say_of_themselves(licences: ModuleType) -> None:
    assert licences.page() == licences.PAGE.read_text("utf-8"), "run: .venv/bin/python docs/licences.py"


def test_the_page_lists_every_locked_package_and_every_pinned_jar_at_its_version_and_nothing_else(
    licences: ModuleType,
) -> None:
    locked = {(package.name, package.version) for package in licences.locked_packages()}
    pinned = {tuple(pin.coordinates.rsplit(":", 1)) for pin in read_pins()}
    assert len(locked) > 100 and len(pinned) == 46
    assert set(licences.written()) == locked | pinned | {(name, version) for name, version, *_ in licences.VENDORED}


def test_a_file_of_others_is_the_one_that_is_pinned_with_its_licence_beside_it(licences: ModuleType) -> None:
    for name, _, _, file in licences.VENDORED:
        path = PROJECT / file
        assert hashlib.sha256(path.read_bytes()).hexdigest() == licences.VENDORED_SHA256[name]
        assert "Apache License" in path.with_name(f"{path.stem}.LICENSE.txt").read_text("utf-8")
        assert "https://www.tradingview.com/" in path.with_name(f"{path.stem}.NOTICE.txt").read_text("utf-8")


def test_every_licence_is_one_that_spdx_knows(licences: ModuleType) -> None:
    spdx = get_spdx_licensing()
    unknown = {
        name: licence
        for (name, _), (licence, _) in licences.written().items()
        if spdx.validate(licence).errors and not licence.startswith("LicenseRef-")
    }
    assert unknown == {}
    assert {name for (name, _), (licence, _) in licences.written().items() if "LicenseRef-" in licence} == {"venusian"}


def test_a_licence_that_nothing_tells_is_asked_for_by_name(
    licences: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(licences.BY_HAND, "lz4")
    with pytest.raises(LookupError, match="licence of lz4: read"):
        licences.page()


def test_our_own_licence_is_apaches_whole_text() -> None:
    # As https://www.apache.org/licenses/LICENSE-2.0.txt has it, with the appendix.
    assert hashlib.md5((PROJECT / "LICENSE").read_bytes()).hexdigest() == "3b83ef96387f14655fc854ddc3c6bd57"
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    assert (project["license"], project["license-files"]) == ("Apache-2.0", ["LICENSE"])


def test_the_sbom_is_valid_by_the_schema_of_cyclonedx(printed: str, sbom: dict[str, Any]) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(printed) is None
    # A field of another type is found, so the validator does validate.
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(sbom | {"components": 1})) is not None
    assert Bom.from_json(sbom).validate()  # type: ignore[attr-defined]


def test_the_sbom_holds_every_package_and_jar_with_the_hashes_that_installing_checks(
    licences: ModuleType, sbom: dict[str, Any]
) -> None:
    by_purl = {component["purl"]: component for component in sbom["components"]}
    packages, pins = licences.locked_packages(), read_pins()
    assert len(by_purl) == len(packages) + len(pins) + len(licences.VENDORED)
    for package in packages:
        (files,) = by_purl[f"pkg:pypi/{package.name}@{package.version}"]["externalReferences"]
        assert {one["content"] for one in files["hashes"]} == set(package.sha256) != set()
    for pin in pins:
        group, artifact, version = pin.coordinates.split(":")
        (only,) = by_purl[f"pkg:maven/{group}/{artifact}@{version}?type=jar"]["hashes"]
        assert only["content"] == pin.sha256
    assert all(component["licenses"] for component in sbom["components"])


def test_the_sbom_is_the_same_bytes_each_time(printed: str) -> None:
    command = [sys.executable, str(PROJECT / "docs" / "sbom.py")]
    again = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    assert again == printed
