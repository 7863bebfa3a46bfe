"""Every setting: one typed object, read from the environment and from a ``.env`` file in the working directory.

What a ``.env`` may not do, for the directory may be a stranger's: name the address that a secret from elsewhere is sent to
(:mod:`infra.settings.origin`).

Names are those of the environment (the design's CAPS). ``newsproof config`` prints each value with its origin;
docs/settings.md is generated from the files of this folder and checked by a test.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from infra.redaction import remember
from infra.settings.budget import BudgetSettings
from infra.settings.clickhouse import ClickHouseSettings
from infra.settings.installation import InstallationSettings
from infra.settings.kafka import KafkaSettings, TopicSettings
from infra.settings.models import ModelSettings
from infra.settings.offline import OfflineSettings
from infra.settings.origin import WrittenSource, given_by_environment, refuse_foreign_addresses, written_in
from infra.settings.research import ResearchSettings
from infra.settings.search import SearchSettings
from infra.settings.sources import SourceSettings
from infra.settings.verification import VerificationSettings
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
    BudgetSettings,
    ModelSettings,
    OfflineSettings,
    WebSettings,
    ResearchSettings,
)
"""The parts of ``Settings`` in the order of docs/settings.md. A comment in one begins a section of the page."""


# In this order because pydantic lists the fields of the last one first, and `newsproof config` shows them as listed.
class Settings(
    OfflineSettings,
    ModelSettings,
    BudgetSettings,
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
):
    """The settings of one process. Units are in the names or the descriptions."""

    model_config = SettingsConfigDict(
        env_file=".env", extra="ignore", case_sensitive=False, frozen=True, env_ignore_empty=True
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
        """Read ``.env`` as it is written, without putting the environment into it."""
        file = getattr(dotenv_settings, "env_file", None)
        return init_settings, env_settings, WrittenSource(settings_cls, env_file=file)

    @property
    def mode(self) -> Literal["live", "offline", "simulated"]:
        """The mode in force: ``auto`` means live exactly when the light model has its key.

        Without it ``auto`` is simulated where a scripted server is named, else offline.
        """
        if self.newsproof_mode == "auto":
            light = self.model_light.partition(":")[0].strip().lower()
            if self.openai_api_key if light == "openai" else self.gemini_api_key:
                return "live"
            return "simulated" if self.scripted_model_url else "offline"
        return self.newsproof_mode

    @property
    def topic_prefix(self) -> str:
        """Prefix of topics and groups."""
        return self.newsproof_topic_prefix


def load_settings(**overrides: object) -> Settings:
    """Read the settings; ``overrides`` win over the environment.

    Raises:
        ConfigError: names every setting that is wrong, and what it accepts; or an address of ``.env`` that a secret from
            elsewhere would be sent to.
    """
    try:
        settings = Settings(**overrides)  # type: ignore[arg-type]
    except ValidationError as exc:
        lines = [f"{'.'.join(map(str, e['loc'])).upper()}: {e['msg']}{_shown(e)}" for e in exc.errors()]
        raise ConfigError("these settings are wrong, correct them and start again:\n  " + "\n  ".join(lines)) from exc
    remember(settings)
    if (file := overrides.get("_env_file", Settings.model_config.get("env_file"))) is not None:
        elsewhere = given_by_environment() | {name for name, value in overrides.items() if value is not None}
        refuse_foreign_addresses(Path(str(file)), set(written_in(Path(str(file)))) - elsewhere, elsewhere)
    return settings


def _shown(error: Any) -> str:
    # A refused secret is not repeated, nor is an address, which may hold a password.
    name = str(error["loc"][0]).lower() if error["loc"] else ""
    field = Settings.model_fields.get(name)
    if field is None or "SecretStr" in str(field.annotation) or name.endswith("_url"):
        return ""
    return f" (is {error['input']!r})"
