"""Settings of ClickHouse and of its analyst user."""

from __future__ import annotations

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings


class ClickHouseSettings(BaseSettings):
    """Connection to ClickHouse, and the limits of an analyst's queries."""

    clickhouse_url: str | None = Field(
        None,
        description="Address of ClickHouse, such as http://user:password@host:8123. Unset: start the embedded ClickHouse",
    )
    clickhouse_database: str = Field("newsproof", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="Database name")
    clickhouse_cluster: str | None = Field(
        None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_-]*$",
        description="Cluster (one shard, any number of replicas) on which to create tables and views, with replicated "
        "engines. Unset: a single server. Set it before the first start: existing tables are not converted "
        "(docs/scaling.md)",
    )
    clickhouse_port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="Port of the embedded ClickHouse on 127.0.0.1, for BI tools. Unset: a free port at each start",
    )
    clickhouse_analyst_user: str = Field(
        "analyst", pattern=r"^[A-Za-z_][A-Za-z0-9_-]*$", description="Read-only database user for analysts"
    )
    clickhouse_analyst_password: SecretStr | None = Field(
        None,
        description="Password of CLICKHOUSE_ANALYST_USER. Unset: the embedded ClickHouse generates one (`newsproof "
        "analyst` prints it); with CLICKHOUSE_URL, `newsproof sql` connects as that address's user, with "
        "readonly=1",
    )
    clickhouse_analyst_max_seconds: int = Field(60, ge=1, description="Time limit of an analyst's query, in seconds")
    clickhouse_analyst_max_memory_mb: int = Field(1024, ge=64, description="Memory limit of an analyst's query, in MiB")
    clickhouse_analyst_max_rows: int = Field(1_000_000, ge=1, description="Row limit of an analyst's query result")
