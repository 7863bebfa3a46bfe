"""Settings of ClickHouse and of its analyst user."""

from __future__ import annotations

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings


class ClickHouseSettings(BaseSettings):
    """Connection to ClickHouse, and the limits of an analyst's queries."""

    clickhouse_url: str | None = Field(
        None, description="http://user:password@host:8123; unset: the embedded ClickHouse engine is started"
    )
    clickhouse_database: str = Field("newsproof", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    clickhouse_cluster: str | None = Field(
        None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_-]*$",
        description="Cluster (one shard, any number of replicas) that tables and views are created on, with replicated "
        "engines; unset: one server. Set it before the first start: existing tables are not converted (docs/scaling.md)",
    )
    clickhouse_port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="Port of 127.0.0.1 that the embedded engine listens on, for BI tools; unset: a free one at each start",
    )
    clickhouse_analyst_user: str = Field(
        "analyst", pattern=r"^[A-Za-z_][A-Za-z0-9_-]*$", description="Who reads the database and nothing else"
    )
    clickhouse_analyst_password: SecretStr | None = Field(
        None,
        description="Password of that user; unset: the embedded engine makes one (`newsproof analyst` prints it), and at a "
        "CLICKHOUSE_URL `newsproof sql` reads as the user of that address, with readonly=1",
    )
    clickhouse_analyst_max_seconds: int = Field(60, ge=1, description="Longest query of an analyst")
    clickhouse_analyst_max_memory_mb: int = Field(1024, ge=64, description="Memory (MiB) of one query of an analyst")
    clickhouse_analyst_max_rows: int = Field(1_000_000, ge=1, description="Rows of one answer to an analyst")
