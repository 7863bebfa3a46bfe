"""The change that a replay makes: candidate prompts and models, and the replay of one recorded case under them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from agents.core.registry import Registry
from agents.prompts import all_prompts, parse_prompt
from infra.models import routes
from infra.settings import Settings
from newsproof.app.model_options import tuned_prompts
from newsproof.app.version import code_version
from schemas.config import Prompt, Snapshot
from schemas.errors import ConfigError
from streams.replay import Change, Recording, Replay


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
    if version := next((p for p in known if p.version == wanted.removeprefix("v")), None):
        return version
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
    try:
        prompt = parse_prompt(str(path), raw, path.parent)
    except FileNotFoundError:
        # A copy of a built-in prompt names a schema stored beside the original.
        prompt = parse_prompt(str(path), raw, resources.files("agents.prompts"))
    if prompt.name != name:
        raise ConfigError(
            f"{path} is the prompt {prompt.name!r}, not {name!r}: correct its front matter, or the option"
        )
    return prompt


OFFLINE = (
    "offline mode uses rules that read no prompt, so this run would equal the recording: set the key of a model, such as "
    "GEMINI_API_KEY, or start a scripted one (`newsproof model-server > scripted.env &`, then `newsproof model-server "
    "--wait-env scripted.env` and `export $(cat scripted.env)`)"
)


def reads_no_prompt(settings: Settings, prompts: Mapping[str, Prompt]) -> bool:
    """Return whether these settings would replay candidate prompts without a model that reads them."""
    return bool(prompts) and settings.mode == "offline"


def refuse_offline(settings: Settings, prompts: Mapping[str, Prompt]) -> None:
    """Refuse candidate prompts that no model would read.

    Raises:
        ConfigError: this is offline mode; the text says what to do.
    """
    if reads_no_prompt(settings, prompts):
        raise ConfigError(OFFLINE)


def candidate_models(settings: Settings, options: Sequence[str]) -> dict[str, str]:
    """Return ``provider:model`` by task.

    Raises:
        ConfigError: an option is malformed, the task or the provider does not exist, its key is missing, or this is not live
            mode, the only one with a choice of models.
    """
    tasks = frozenset(p.name for p in all_prompts())
    chosen: dict[str, str] = {}
    for option in options:
        task, equals, model = (part.strip() for part in option.partition("="))
        if not equals or task not in tasks or task in chosen:
            raise ConfigError(
                f"--model {option!r}: write TASK=PROVIDER:MODEL, such as synthesize=openai:gpt-5-mini, each task once, the task "
                f"one of {', '.join(sorted(tasks))}"
            )
        if settings.mode != "live":
            raise ConfigError(
                f"--model {option!r}: models can be chosen in live mode only, and this is {settings.mode} mode: set the "
                "provider's key, and NEWSPROOF_MODE=live"
            )
        try:
            (first,) = routes(settings.model_copy(update={"model_tasks": f"{task}={model}"}), tasks)[task]
        except (ConfigError, ValueError) as exc:
            raise ConfigError(f"--model {option!r}: name one model, as in MODEL_TASKS: {exc}") from exc
        chosen[task] = ":".join(first)
    return chosen


def with_models(settings: Settings, models: Mapping[str, str]) -> Settings:
    """Return the settings with these models for their tasks, without fallbacks: a reply of a fallback would test another model."""
    if not models:
        return settings
    kept = [e for e in settings.model_tasks.split(",") if e.strip() and e.partition("=")[0].strip() not in models]
    named = (f"{task}={model}" for task, model in models.items())
    return settings.model_copy(update={"model_tasks": ",".join((*kept, *named))})


class ReplayBuilder:
    """Builds replays of the cases of one log: which snapshot decides, and which replies may be reused.

    With ``ask_every_step`` no step is taken from the recording.
    """

    def __init__(
        self,
        registry: Registry,
        snapshots: Mapping[str, Snapshot],
        change: Change,
        *,
        ask_every_step: bool = False,
        code: str | None = None,
    ) -> None:
        self._registry = registry
        self._snapshots = snapshots
        self._change = change
        self._code = code_version() if code is None else code
        self._every = ask_every_step or bool(change.settings)
        self._changed: dict[str, tuple[Snapshot | None, frozenset[str] | None]] = {}

    def build(self, recording: Recording, *, from_step: str | None = None) -> Replay:
        """Return the replay of this case. Steps before ``from_step`` keep their recorded results, whatever changes.

        Raises:
            ConfigError: the change does not fit the case's snapshot.
        """
        config_hash = recording.config_hash
        if config_hash not in self._changed:
            self._changed[config_hash] = self._decided_by(self._snapshots.get(config_hash))
        snapshot, changed = self._changed[config_hash]
        return Replay(
            recording, snapshot, self._registry, changed=changed, from_step=from_step, models=self._change.models
        )

    def rules_of(self, recording: Recording) -> int | None:
        """Return the version of the rules that decided the recorded case; None if its snapshot is missing."""
        pinned = self._snapshots.get(recording.config_hash)
        return None if pinned is None else pinned.rules

    def _decided_by(self, pinned: Snapshot | None) -> tuple[Snapshot | None, frozenset[str] | None]:
        if pinned is None:
            return None, None
        other = frozenset(n for n, p in self._change.prompts.items() if pinned.prompts.get(n) != p)
        # Steps are deterministic, so the same code gives the same result; every step of another code version is asked.
        as_recorded = not self._every and pinned.code_version == self._code
        return self._change.applied_to(pinned), other if as_recorded else None
