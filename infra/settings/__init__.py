"""All settings as one typed object, read from the environment and from a ``.env`` file in the working directory.

That directory may be a stranger's, so a ``.env`` may not name the address that a secret from elsewhere is sent to
(:mod:`infra.origin`).

Field names are the names of environment variables in lower case. ``newsproof config`` prints each value with its
origin. docs/settings.md is generated from the files of this folder and checked by a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from infra.origin import (
    MAPPINGS,
    given_by_environment,
    refuse_addresses_from_elsewhere,
    refuse_foreign_addresses,
    written_in,
)
from infra.redaction import remember
from infra.settings.bots import BotSettings
from infra.settings.budget import BudgetSettings
from infra.settings.clickhouse import ClickHouseSettings
from infra.settings.evaluation import EvaluationSettings
from infra.settings.installation import InstallationSettings, OfflineSettings
from infra.settings.kafka import KafkaSettings, TopicSettings
from infra.settings.listeners import ListenerSettings
from infra.settings.models import ModelSettings
from infra.settings.research import ResearchSettings
from infra.settings.search import SearchSettings
from infra.settings.sources import SourceSettings
from infra.settings.verification import FULL_PIPELINE, VerificationSettings
from infra.settings.web import WebSettings
from infra.settings.worker import WorkerSettings
from schemas.errors import ConfigError

SUBJECTS: tuple[type[BaseSettings], ...] = (
    InstallationSettings,
    KafkaSettings,
    ClickHouseSettings,
    TopicSettings,
    WorkerSettings,
    VerificationSettings,
    SearchSettings,
    SourceSettings,
    ListenerSettings,
    BudgetSettings,
    ModelSettings,
    OfflineSettings,
    WebSettings,
    ResearchSettings,
    EvaluationSettings,
    BotSettings,
)
"""The parts of ``Settings`` in the order of docs/settings.md. A comment between fields starts a section there."""


# pydantic lists the fields of the last base class first, and `newsproof config` shows them in that order.
class Settings(
    OfflineSettings,
    ModelSettings,
    BudgetSettings,
    ListenerSettings,
    SourceSettings,
    SearchSettings,
    VerificationSettings,
    WorkerSettings,
    TopicSettings,
    ClickHouseSettings,
    KafkaSettings,
    InstallationSettings,
    WebSettings,
    ResearchSettings,
    EvaluationSettings,
    BotSettings,
):
    """The settings of one process. Units are in the names or the descriptions."""

    model_config = SettingsConfigDict(
        env_file=".env",
        extra="ignore",
        case_sensitive=False,
        frozen=True,
        env_ignore_empty=True,
        # OPENAI_KEY_TUZI is the entry "tuzi" of openai_key; bot_secret is the other setting that is a mapping.
        env_nested_delimiter="_",
        env_nested_max_split=1,
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read ``.env`` literally, without interpolating environment variables."""
        file = getattr(dotenv_settings, "env_file", None)
        read: tuple[EnvSettingsSource, ...] = (
            EnvSettingsSource(settings_cls),
            _WrittenSource(settings_cls, env_file=file),
        )
        for source in read:
            # OPENAI_KEY alone is another program's: taken for the whole mapping, it would hide its entries.
            source.env_vars = {name: value for name, value in source.env_vars.items() if name not in MAPPINGS}
        return init_settings, *read

    @property
    def mode(self) -> Literal["live", "offline", "simulated"]:
        """The effective mode. ``auto`` means live when the light model is Gemini's and its key is there, or somebody else's:
        whoever names another provider wants no invented signals, and a key that is missing is refused by name.

        Otherwise ``auto`` means simulated if a scripted model server is configured, else offline.
        """
        if self.newsproof_mode != "auto":
            return self.newsproof_mode
        provider, colon, _ = (part.strip().lower() for part in self.model_light.partition(":"))
        of_gemini = not colon or provider == "gemini"
        if self.gemini_api_key is not None or not of_gemini:
            return "live"
        return "simulated" if self.scripted_model_url else "offline"

    @property
    def defaults_of_up(self) -> dict[str, object]:
        """The settings that ``up`` sets because nobody did: the full pipeline, and in live mode the opening of pages.

        Undated official pages are opened for their date, and titles for their text.
        """
        wanted = FULL_PIPELINE | ({"tool_scrape_enabled": True} if self.mode == "live" else {})
        return {name: value for name, value in wanted.items() if name not in self.model_fields_set}

    @property
    def topic_prefix(self) -> str:
        return self.newsproof_topic_prefix


class _WrittenSource(DotEnvSettingsSource):
    """Settings source of a ``.env`` file, read by :func:`written_in`."""

    def _read_env_file(self, file_path: Path) -> Mapping[str, str | None]:
        return written_in(file_path)


def load_settings(**overrides: object) -> Settings:
    """Read the settings; ``overrides`` take precedence over the environment.

    ``_env_file`` names the file to read in the place of ``.env``; None: none.

    Raises:
        ConfigError: settings are invalid (the text names each of them, and what it accepts), a line of ``.env`` is, or
            ``.env`` names an address that it may not (:mod:`infra.origin`).
    """
    file = overrides.get("_env_file", Settings.model_config.get("env_file"))
    path = None if file is None else Path(str(file))
    written = {} if path is None else written_in(path)  # first: pydantic-settings would only log what is wrong in it
    try:
        settings = Settings(**overrides)  # type: ignore[arg-type]
    except ValidationError as exc:
        lines = [f"{'.'.join(map(str, e['loc'])).upper()}: {e['msg']}{_shown(e)}" for e in exc.errors()]
        raise ConfigError("these settings are invalid; correct them and start again:\n  " + "\n  ".join(lines)) from exc
    if settings.full_pipeline:
        settings = settings.model_copy(update=settings.defaults_of_up)
    remember(settings)
    if path is not None:
        elsewhere = given_by_environment() | {name for name, value in overrides.items() if value is not None}
        in_file = set(written) - elsewhere
        if "_env_file" not in overrides:
            refuse_addresses_from_elsewhere(path, in_file, settings.newsproof_data_dir)
        refuse_foreign_addresses(path, in_file, elsewhere)
    return settings


def _shown(error: Any) -> str:
    # An invalid secret is not repeated, nor is a URL, which may contain a password.
    name = str(error["loc"][0]).lower() if error["loc"] else ""
    field = Settings.model_fields.get(name)
    if field is None or "SecretStr" in str(field.annotation) or name.endswith(("_url", "_gateways")):
        return ""
    return f" (is {error['input']!r})"
