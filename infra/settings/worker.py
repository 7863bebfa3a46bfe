"""Settings of the worker and the sink: limits, log and metrics."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings


class WorkerSettings(BaseSettings):
    """Settings that only the processes of the pipeline read."""

    # Worker
    worker_slot: str = Field(
        "0",
        pattern=r"^[A-Za-z0-9_-]{1,40}$",
        description="Name of the worker: unique, and the same after a restart (Kafka static membership)",
    )
    max_open_cases: int = Field(2000, ge=1, description="Open cases of one worker above which it pauses intake")
    step_concurrency: int = Field(
        64, ge=1, description="Concurrent effects (model, search and page calls) of one step in one worker"
    )
    effects_in_flight: int = Field(256, ge=1, description="Concurrent effects of one worker, all steps together")
    case_deadline_seconds: float = Field(
        300.0, gt=0, description="Time limit of a case, in seconds. Every case has ended by then"
    )
    crash_suspect_after: int = Field(
        3, ge=1, description="Worker crashes at the same event before its step is run in isolation"
    )
    dedup_days: int = Field(30, ge=1, description="Days within which a repeated news item opens no second case")
    session_timeout_seconds: float = Field(10.0, gt=1, description="Kafka session timeout of a worker, in seconds")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="Lowest log level that is written"
    )
    metrics_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="Port of /metrics, /healthz and /readyz of a worker, the sink or the listener. 0: a free port and a "
        "random path, which only a file in the folder `metrics` of the data directory names. Unset: no port, "
        "except that `up` and `bots run` use 0. `up` takes consecutive ports from this one: workers, sink, research worker, "
        "listener",
    )
    metrics_host: str = Field(
        "127.0.0.1", description="Address that METRICS_PORT binds to. Anything but loopback is open to the network"
    )
