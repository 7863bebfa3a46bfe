"""Definitions for a replicated cluster: ``ON CLUSTER`` and replicated engines, rendered from those for one server.

The migrations stay as they are, so their checksums are the same everywhere. The cluster has one shard and any number of
replicas. A row of a second shard would be in no view: the views read local tables.
"""

from __future__ import annotations

import re

from schemas.errors import ConfigError

_DEDUPLICATION_S = 30 * 24 * 3600
"""Keeper forgets insert tokens by age too, by default after an hour. The sink may resend a batch after a longer outage."""
_OBJECT = re.compile(
    r"\s*(?:CREATE\s+(?:OR\s+REPLACE\s+)?|ALTER\s+|DROP\s+)"
    r"(?:DATABASE|TABLE|VIEW)\s+(?:IF\s+(?:NOT\s+)?EXISTS\s+)?[\w`]+",
    re.IGNORECASE,
)
_EXCHANGE = re.compile(r"\s*EXCHANGE\s+TABLES\s+\w+\s+AND\s+\w+", re.IGNORECASE)
_ENGINE = re.compile(r"\bENGINE\s*=\s*(?=\w*MergeTree\b)", re.IGNORECASE)
_WINDOW = re.compile(r"\bnon_replicated_deduplication_window\s*=\s*(\d+)")


def on_cluster(sql: str, cluster: str) -> str:
    """Return the definition for every replica of a cluster. An INSERT is returned unchanged: Keeper replicates rows.

    Replicated engines get no path: the server's ``default_replica_path`` and ``default_replica_name`` apply.

    Raises:
        ConfigError: the statement has a form that this function does not know.
    """
    if re.match(r"\s*INSERT\s", sql, re.IGNORECASE):
        return sql
    found = _EXCHANGE.match(sql) or _OBJECT.match(sql)
    if found is None:
        raise ConfigError(f"CLICKHOUSE_CLUSTER: unknown form of a definition, extend on_cluster for it: {sql[:80]}")
    body = _ENGINE.sub("ENGINE = Replicated", sql[found.end() :])
    body = _WINDOW.sub(
        rf"replicated_deduplication_window = \1, replicated_deduplication_window_seconds = {_DEDUPLICATION_S}", body
    )
    return f"{found.group()} ON CLUSTER `{cluster}`{body}"
