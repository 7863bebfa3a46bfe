"""JSON schemas of Kubernetes objects for kubeconform, made from the sources of Kubernetes, KEDA and the Prometheus operator.

kubeconform's own schemas lie on a host that a closed network does not reach; Go's module proxy has what they are made from.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

KUBERNETES = "k8s.io/kubernetes@v1.37.2"
CRDS = {
    "github.com/kedacore/keda/v2@v2.21.0": "config/crd/bases/keda.sh_scaledobjects.yaml",
    "github.com/prometheus-operator/prometheus-operator@v0.85.0": (
        "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"
    ),
}
KINDS = (
    *("v1/ConfigMap", "v1/Service", "apps/v1/Deployment", "apps/v1/StatefulSet"),
    *("policy/v1/PodDisruptionBudget", "networking.k8s.io/v1/NetworkPolicy"),
)
_UNIONS = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": ["string", "integer"],
    "io.k8s.apimachinery.pkg.api.resource.Quantity": ["string", "number"],
}
"""Definitions that the API server reads from either type, where OpenAPI 2 can name one alone."""


def write_schemas(directory: Path) -> str:
    """Write the schemas and return the value of kubeconform's ``-schema-location``. Unknown fields are errors.

    Raises:
        LookupError: there is no Go, or no module proxy; the text says which.
    """
    definitions = json.loads((_module(KUBERNETES) / "api" / "openapi-spec" / "swagger.json").read_bytes())[
        "definitions"
    ]
    for name, types in _UNIONS.items():
        definitions[name] = {"type": types}
    for kind in KINDS:
        _write(directory, kind, _native(definitions, kind))
    for module, file in CRDS.items():
        crd = yaml.safe_load((_module(module) / file).read_text("utf-8"))["spec"]
        for version in crd["versions"]:
            kind = f"{crd['group']}/{version['name']}/{crd['names']['kind']}"
            _write(directory, kind, _strict(version["schema"]["openAPIV3Schema"]))
    return f"{directory}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"


def _module(name: str) -> Path:
    """Return the folder of a Go module; it is fetched once."""
    if shutil.which("go") is None:
        raise LookupError("no Go here (https://go.dev/doc/install): it fetches the sources of Kubernetes")
    command = ["go", "mod", "download", "-json", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", timeout=300)
    if done.returncode:
        raise LookupError(f"Go's module proxy does not have {name}: {(done.stdout + done.stderr)[-300:]}")
    return Path(json.loads(done.stdout)["Dir"])


def _native(definitions: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the schema of a built-in kind with the definitions that it uses."""
    group, version, name = ["", *kind.split("/")][-3:]
    wanted = {"group": group, "version": version, "kind": name}
    (root,) = (key for key, one in definitions.items() if wanted in one.get("x-kubernetes-group-version-kind", ()))
    used: dict[str, Any] = {}
    waiting = [root]
    while waiting:
        if (key := waiting.pop()) not in used:
            used[key] = _strict(definitions[key])
            waiting += _references(used[key])
    return used.pop(root) | {"definitions": used}


def _references(schema: Any) -> list[str]:
    if isinstance(schema, dict):
        own = [schema["$ref"].removeprefix("#/definitions/")] if isinstance(schema.get("$ref"), str) else []
        return own + [found for value in schema.values() for found in _references(value)]
    return [found for value in schema for found in _references(value)] if isinstance(schema, list) else []


def _strict(schema: Any) -> Any:
    """Return the schema with unknown fields refused, except where Kubernetes keeps them."""
    if isinstance(schema, list):
        return [_strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _strict(value) for key, value in schema.items() if key not in ("format", "default")}
    open_to_all = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if isinstance(schema.get("properties"), dict) and not open_to_all:
        made["additionalProperties"] = False
    return made


def _write(directory: Path, kind: str, schema: dict[str, Any]) -> None:
    group, version, name = ["", *kind.split("/")][-3:]
    suffix = "-".join(filter(None, [group.split(".")[0], version]))
    (directory / f"{name}-{suffix}.json".lower()).write_text(json.dumps(schema), "utf-8")
