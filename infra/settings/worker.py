"""Settings of the worker and the sink: limits, log and metrics."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings


class WorkerSettings(BaseSettings):
    """Settings that only the processes of the pipeline read."""

    # The worker
    worker_slot: str = Field(
        "0", pattern=r"^[A-Za-z0-9_-]{1,40}$", description="Unique and stable per worker; static membership"
    )
    max_open_cases: int = Field(2000, ge=1, description="Intake pauses news above this many open cases of a worker")
    step_concurrency: int = Field(64, ge=1, description="Running effects per step and worker (bulkhead)")
    effects_in_flight: int = Field(256, ge=1, description="Running effects of a worker, all steps together")
    case_deadline_seconds: float = Field(300.0, gt=0, description="Every case has ended by then")
    crash_suspect_after: int = Field(3, ge=1, description="Crashes at one head before its step runs alone")
    dedup_days: int = Field(30, ge=1, description="The same news within this many days opens no second case")
    session_timeout_seconds: float = Field(10.0, gt=1, description="Kafka session timeout of a worker")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO")
    metrics_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="/metrics, /healthz and /readyz of a worker, the sink or the listener; unset: none, with `up` as 0; 0: a free one and a "
        "path that only a file in `metrics` of the data directory names. `up` counts on from this port: its workers, the sink, the "
        "research worker, the listener",
    )
    metrics_host: str = Field(
        "127.0.0.1", description="Address that METRICS_PORT is opened on; anything but loopback is open to the network"
    )
