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
        description="Added to every offline model and search reply; with SCRIPTED_MODEL_URL the median of a search",
    )
    offline_pages_dated_by_event: bool = Field(
        False,
        description="Offline mode dates the pages of each search anew: as far from the case as they lie from the event of "
        "the sample that the search is about. `demo --listen` sets it, whose items are dated now",
    )
    scripted_model_url: str | None = Field(
        None,
        description="Simulated mode asks this scripted model server (`newsproof model-server` prints its address) and the "
        "bundled corpus; unset: simulated answers are empty",
    )
