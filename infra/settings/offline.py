"""Settings of the providers in offline and simulated mode."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings


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
