"""Candidate prompts of ``--prompt NAME=VERSION`` or ``--prompt NAME=FILE``, with the ``MODEL_OPTIONS`` of their task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agents.prompts import all_prompts, parse_prompt
from infra.settings import Settings
from newsproof.app.model_options import tuned_prompts
from schemas.config import Prompt
from schemas.errors import ConfigError


def candidate_prompts(settings: Settings, options: Sequence[str]) -> dict[str, Prompt]:
    """Return the prompts that the options name, as a worker with these settings would use them.

    With ``MODEL_OPTIONS`` a candidate runs at the temperature and length of its task, and so differs from the live
    prompt in its text alone. Prompts that are not named stay as each case pinned them, whatever the settings are now.

    Raises:
        ConfigError: as :func:`chosen_prompts`, or an entry of ``MODEL_OPTIONS`` is malformed.
    """
    return tuned_prompts(settings, chosen_prompts(options))


def chosen_prompts(options: Sequence[str]) -> dict[str, Prompt]:
    """Return the prompts that the options name.

    Raises:
        ConfigError: an option is malformed, or the prompt, version or file does not exist; the text lists what exists.
    """
    chosen: dict[str, Prompt] = {}
    for option in options:
        name, separator, wanted = option.partition("=")
        if not separator or not name or not wanted:
            raise ConfigError(f"--prompt {option!r}: write NAME=VERSION or NAME=FILE, such as synthesize=v4")
        if name in chosen:
            raise ConfigError(f"--prompt names {name!r} twice: one run changes a prompt once")
        chosen[name] = _prompt(name, wanted)
    return chosen


def _prompt(name: str, wanted: str) -> Prompt:
    known = [p for p in all_prompts() if p.name == name]
    if not known:
        names = ", ".join(sorted({p.name for p in all_prompts()}))
        raise ConfigError(f"there is no prompt {name!r}: write one of {names}")
    if found := next((p for p in known if p.version == wanted.removeprefix("v")), None):
        return found
    path = Path(wanted)
    if path.suffix != ".md" and not path.exists():
        versions = ", ".join(f"v{p.version}" for p in known)
        raise ConfigError(
            f"prompt {name!r} has no version {wanted!r}: write one of {versions}, or the path of a .md file"
        )
    try:
        raw = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"--prompt {name}={wanted}: the file cannot be read ({exc}): check its path") from exc
    return _of_file(name, path, raw)


def _of_file(name: str, path: Path, raw: str) -> Prompt:
    prompt = _parsed(path, raw)
    if prompt.name != name:
        raise ConfigError(
            f"{path} is the prompt {prompt.name!r}, not {name!r}: correct its front matter, or the option"
        )
    return prompt


def _parsed(path: Path, raw: str) -> Prompt:
    from importlib import resources

    try:
        return parse_prompt(str(path), raw, path.parent)
    except FileNotFoundError:
        # A copy of a built-in prompt names a schema stored beside the original.
        return parse_prompt(str(path), raw, resources.files("agents.prompts"))
