"""Settings of an installation: its mode, directory and topic prefix, and its offline providers."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings


class InstallationSettings(BaseSettings):
    """Settings that distinguish one installation from another."""

    # Installation
    newsproof_mode: Literal["auto", "live", "offline", "simulated"] = Field(
        "auto",
        description="live: real models and search. offline: word rules and a bundled corpus. simulated: a scripted model "
        "server. auto: live if GEMINI_API_KEY is set or MODEL_LIGHT names a provider other than Gemini; "
        "otherwise simulated with SCRIPTED_MODEL_URL, else offline",
    )
    newsproof_data_dir: Path = Field(
        Path(".data"), description="Directory for the embedded servers' data and the worker slots"
    )
    newsproof_min_free_mb: int = Field(
        512,
        ge=0,
        description="Free disk space in MB that the embedded servers need to start. `up` warns when less is left",
    )
    newsproof_topic_prefix: str = Field(
        "newsproof.", pattern=r"^[A-Za-z0-9._-]*$", description="Prefix of every Kafka topic and consumer group"
    )


class OfflineSettings(BaseSettings):
    """Stand-ins for external providers."""

    # Offline and simulated providers
    offline_latency_seconds: float = Field(
        0.0,
        ge=0,
        description="Delay in seconds added to every offline model and search response. With SCRIPTED_MODEL_URL: the "
        "median search time",
    )
    offline_pages_dated_by_event: bool = Field(
        False,
        description="Shift the dates of offline pages: each page keeps its distance in time from the sample event, "
        "counted from the case. `demo --listen` sets it, because its items are dated now",
    )
    scripted_model_url: str | None = Field(
        None,
        description="Address of the scripted model server for simulated mode, as `newsproof model-server` prints it. "
        "Searches use the bundled corpus. Unset: simulated responses are empty",
    )
