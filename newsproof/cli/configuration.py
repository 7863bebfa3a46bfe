"""Views of the settings: each value with its origin, secrets masked; and the generator of docs/settings.md."""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from infra.origin import written_in
from infra.settings import SUBJECTS, Settings
from infra.settings.endpoints import gateways, key_name
from newsproof.app.invocation import markdown_table

MASK = "••••••••"

Origin = Literal["command line", "environment", ".env", "default"]

_WITH_PASSWORD = re.compile(r"(?<=://)([^:/@]*):([^@]*)@")


class SettingView(msgspec.Struct, frozen=True, kw_only=True):
    """One setting for display. ``value`` is text with secrets masked; None if it is unset."""

    name: str
    value: str | None
    origin: Origin
    description: str


def views(
    settings: Settings, *, given: frozenset[str] = frozenset(), env_file: Path | None = None
) -> list[SettingView]:
    """Return every setting; ``given`` names those that the command line set, ``env_file`` is the file it named."""
    environment = {name.upper() for name, value in os.environ.items() if value}
    file = {name.upper() for name in written_in(env_file or Path(".env"))}
    shown = []
    for name, field in Settings.model_fields.items():
        for variable, value in _variables(settings, name):
            origin: Origin = "default"
            if name in given:
                origin = "command line"
            elif variable in environment:
                origin = "environment"
            elif variable in file:
                origin = ".env"
            shown.append(
                SettingView(name=variable, value=masked(value), origin=origin, description=field.description or "")
            )
    return shown


def _variables(settings: Settings, name: str) -> list[tuple[str, Any]]:
    """Return (variable, value): one, or one for each key of the gateways, set or not."""
    value = getattr(settings, name)
    if isinstance(value, dict):
        entries = dict.fromkeys([*map(key_name, gateways(settings.openai_gateways)), *value])
        return [(f"{name}_{one}".upper(), value.get(one)) for one in entries] or [(name.upper(), None)]
    return [(name.upper(), value)]


def masked(value: Any) -> str | None:
    """Return a value as text without secrets; passwords in URLs are masked too. None if it is unset."""
    if value is None:
        return None
    if isinstance(value, SecretStr):
        return MASK
    return _WITH_PASSWORD.sub(lambda match: f"{match[1]}:{MASK}@", str(value))


# docs/settings.md


def settings_page() -> str:
    """Return the text of docs/settings.md."""
    lines = [
        "# Settings",
        "",
        "Written by `newsproof config --markdown`; a test compares. Settings are read from the environment, then from a",
        "`.env` file in the working directory; the names are the same in both, and an empty value counts as unset.",
        "`--env-file` names another file. A line without `=` is refused, and a name that nearly is a setting's is told.",
        "A file may not name the address that a secret from elsewhere is sent to: give the key and its address in one place,",
        "or the address in the environment. From a file that anybody may write, or of another user, no such address is taken,",
        "and a provider's only from a `.env` that stands beside the data directory, or from the file of `--env-file`.",
        "`newsproof config` shows the values in force and where each comes from; `newsproof doctor` says what is missing.",
    ]
    for title, names in _sections():
        fields = [(f"`{name.upper()}`", Settings.model_fields[name]) for name in names]
        rows = [(name, _default(field), _accepts(field), field.description or "") for name, field in fields]
        columns = ("setting", "default", "accepts", "meaning")
        made = markdown_table(columns, rows, escape=lambda cell: cell.replace("|", "\\|"))
        lines += ["", f"## {title}", "", made]
    return "\n".join(lines) + "\n"


def _sections() -> list[tuple[str, list[str]]]:
    """Return (title, settings) in the order of the source, where the comments between the settings are the titles."""
    sections: list[tuple[str, list[str]]] = []
    source = "".join(inspect.getsource(part) for part in SUBJECTS)
    for line in source.splitlines():
        if match := re.fullmatch(r"    # (.+)", line):
            sections.append((match[1], []))
        elif (match := re.match(r"    (\w+): ", line)) and match[1] in Settings.model_fields:
            sections[-1][1].append(match[1])
    return [(title, names) for title, names in sections if names]


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined or field.default is None:
        return "unset"
    text = str(field.default)
    return f"`{text.lower() if isinstance(field.default, bool) else text}`" if text else "empty"


def _accepts(field: FieldInfo) -> str:
    if get_origin(field.annotation) is dict:
        return "secret"
    kinds = [one for one in (get_args(field.annotation) or (field.annotation,)) if one is not type(None)]
    if get_origin(field.annotation) is Literal:
        return ", ".join(f"`{one}`" for one in kinds)
    if len(kinds) == 1 and get_origin(kinds[0]) is Literal:
        return ", ".join(f"`{one}`" for one in get_args(kinds[0]))
    names = {str: "text", int: "whole number", float: "number", bool: "`true`, `false`", SecretStr: "secret"}
    kind = names.get(kinds[0], "path") if isinstance(kinds[0], type) else "text"
    bounds = [f"{sign} {getattr(one, key):g}" for one in field.metadata for key, sign in _BOUNDS if hasattr(one, key)]
    return ", ".join([kind, *bounds])


_BOUNDS = (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<"))
