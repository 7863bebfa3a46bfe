"""Prompts: versioned Markdown files with front matter, read once from the package and pinned by content hash.

A file is named ``<name>.v<version>.md``. A changed prompt is a new file, so that a case decided under the old version
can be decided under it again. The front matter names the JSON schema file of a structured reply. This folder holds the
prompts of the news pipeline; those of the research chat are in ``research`` and those of investigations in
``investigation``, so that a change of one leaves the configuration hash of the others unchanged.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from importlib import resources
from typing import Any, cast, get_args

from msgspec.structs import replace

from schemas.config import Prompt
from schemas.effects import Thinking, Tier
from schemas.errors import ConfigError
from schemas.ids import content_hash

_FIELD = re.compile(r"\{\{(\w+)\}\}")
_REQUIRED = ("name", "version", "tier")


@lru_cache(maxsize=3)
def all_prompts(folder: str = "") -> tuple[Prompt, ...]:
    """Return every version of every prompt, sorted by name and version: the news pipeline's, or those of ``folder``.

    Raises:
        ConfigError: a file is malformed; the text names it.
    """
    place = resources.files(__name__).joinpath(folder) if folder else resources.files(__name__)
    files = sorted((f for f in place.iterdir() if f.name.endswith(".md")), key=lambda f: f.name)
    prompts = [_parse(f.name, f.read_text("utf-8"), place) for f in files]
    return tuple(sorted(prompts, key=lambda p: (p.name, int(p.version))))


def load_prompts(folder: str = "", **versions: str) -> dict[str, Prompt]:
    """Return the newest version of each prompt by name. ``versions`` selects another one, such as ``triage="1"``.

    ``folder``: "" for the news pipeline, ``research`` for the research chat, ``investigation`` for investigations.

    Raises:
        ConfigError: a requested version does not exist.
    """
    chosen = {p.name: p for p in all_prompts(folder)}
    for name, version in versions.items():
        prompt = next((p for p in all_prompts(folder) if p.name == name and p.version == version), None)
        if prompt is None:
            file = f"{folder}/{name}.v{version}.md".removeprefix("/")
            raise ConfigError(f"there is no prompt {name!r} version {version!r}: add agents/prompts/{file}")
        chosen[name] = prompt
    return chosen


def every_task() -> frozenset[str]:
    """Return the names of all model tasks: all prompts of the news pipeline, of the chat and of investigations."""
    return frozenset(p.name for folder in ("", "research", "investigation") for p in all_prompts(folder))


def tuned(
    prompt: Prompt,
    *,
    temperature: float | None = None,
    max_output_tokens: int | None = None,
    thinking: Thinking | None = None,
) -> Prompt:
    """Return the prompt with these settings and so a new hash. None keeps the value of its front matter."""
    chosen = replace(
        prompt,
        temperature=prompt.temperature if temperature is None else temperature,
        max_output_tokens=prompt.max_output_tokens if max_output_tokens is None else max_output_tokens,
        thinking=thinking or prompt.thinking,
        hash="",
    )
    return _with_hash(chosen)


def render(prompt: Prompt, **values: str) -> str:
    """Return the prompt's text with each ``{{field}}`` replaced once. Values are not substituted again.

    Raises:
        LookupError: the prompt names a field that was not given. Values must be our own words: text from outside
            travels as ``Untrusted`` parts.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise LookupError(f"prompt {prompt.name!r} v{prompt.version} needs {match[1]!r}")
        return values[match[1]]

    return _FIELD.sub(value, prompt.text)


def parse_prompt(where: str, raw: str, folder: Any) -> Prompt:
    """Parse the text of a prompt file. ``where`` names it in errors; ``folder`` holds the schema that it may name.

    Raises:
        ConfigError: the front matter is missing or incomplete.
    """
    head, separator, text = raw.removeprefix("---\n").partition("\n---\n")
    if not raw.startswith("---\n") or not separator:
        raise ConfigError(f"{where}: begin it with front matter between two lines of ---")
    fields = {k.strip(): v.strip() for k, _, v in (line.partition(":") for line in head.splitlines() if line.strip())}
    if missing := [k for k in _REQUIRED if not fields.get(k)]:
        raise ConfigError(f"{where}: the front matter lacks {', '.join(missing)}: add it")
    if fields["tier"] not in get_args(Tier):
        raise ConfigError(f"{where}: tier is {fields['tier']!r}, write light or heavy")
    thinking = fields.get("thinking") or "off"
    if thinking not in get_args(Thinking):
        raise ConfigError(f"{where}: thinking is {thinking!r}, write one of {', '.join(get_args(Thinking))}")
    schema = json.loads(folder.joinpath(fields["schema"]).read_text("utf-8")) if fields.get("schema") else None
    prompt = Prompt(
        name=fields["name"],
        version=fields["version"],
        tier="heavy" if fields["tier"] == "heavy" else "light",
        text=text.strip() + "\n",
        hash="",
        temperature=float(fields.get("temperature") or 0.0),
        max_output_tokens=int(fields.get("max_output_tokens") or 1024),
        thinking=cast(Thinking, thinking),
        schema=schema,
    )
    return _with_hash(prompt)


def _parse(file: str, raw: str, folder: Any) -> Prompt:
    where = f"agents/prompts/{file}"
    prompt = parse_prompt(where, raw, folder)
    if file != f"{prompt.name}.v{prompt.version}.md":
        raise ConfigError(f"{where}: call it {prompt.name}.v{prompt.version}.md, as its front matter")
    return prompt


def _with_hash(prompt: Prompt) -> Prompt:
    # The hash covers everything that changes what the model sees, to distinguish two texts under one version number.
    return replace(prompt, hash=content_hash(prompt))
