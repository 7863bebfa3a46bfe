"""Settings of an installation: its mode, directory and topic prefix."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings


class InstallationSettings(BaseSettings):
    """Settings that distinguish one installation from another."""

    # Where things are
    newsproof_mode: Literal["auto", "live", "offline", "simulated"] = Field(
        "auto",
        description="live: real models and search; offline: rules and a bundled corpus; auto: live with GEMINI_API_KEY, or where MODEL_LIGHT names another provider than Gemini",
    )
    newsproof_data_dir: Path = Field(
        Path(".data"), description="Directory of the embedded servers and the worker slots"
    )
    newsproof_min_free_mb: int = Field(
        512,
        ge=0,
        description="MB that the data directory's disk must have free: embedded servers do not start with less, and `up` says "
        "when less is left",
    )
    newsproof_topic_prefix: str = Field(
        "newsproof.", pattern=r"^[A-Za-z0-9._-]*$", description="Prefix of every topic and group"
    )
