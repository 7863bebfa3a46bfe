"""Definitions for a replicated cluster, rendered from the migrations and read by the real engine.

The embedded engine has no Keeper: how replicas follow each other is not tested here.
"""

from __future__ import annotations

import re

import pytest

from infra.clickhouse.client import ClickHouse, connect, on_cluster
from infra.clickhouse.migrate import _LEDGER, load_migrations, migrate
from schemas.errors import ConfigError, PermanentError

STATEMENTS = [_LEDGER, *(statement for migration in load_migrations() for statement in migration.statements)]


def test_a_table_becomes_a_replicated_one_on_every_replica() -> None:
    table = "CREATE TABLE IF NOT EXISTS t (n UInt8) ENGINE = ReplacingMergeTree(n) ORDER BY n SETTINGS non_replicated_deduplication_window = 7, index_granularity = 512"
    assert on_cluster(table, "news") == (
        "CREATE TABLE IF NOT EXISTS t ON CLUSTER `news` (n UInt8) ENGINE = ReplicatedReplacingMergeTree(n) ORDER BY n SETTINGS "
        "replicated_deduplication_window = 7, replicated_deduplication_window_seconds = 2592000, index_granularity = 512"
    )


@pytest.mark.parametrize(
    ("one_server", "cluster"),
    [
        ("CREATE DATABASE IF NOT EXISTS `d`", "CREATE DATABASE IF NOT EXISTS `d` ON CLUSTER `c`"),
        ("CREATE OR REPLACE VIEW v AS SELECT 1", "CREATE OR REPLACE VIEW v ON CLUSTER `c` AS SELECT 1"),
        ("ALTER TABLE `t` MODIFY COMMENT 'x'", "ALTER TABLE `t` ON CLUSTER `c` MODIFY COMMENT 'x'"),
        ("DROP TABLE IF EXISTS t", "DROP TABLE IF EXISTS t ON CLUSTER `c`"),
        ("CREATE TABLE b AS t", "CREATE TABLE b ON CLUSTER `c` AS t"),
        ("EXCHANGE TABLES t AND b", "EXCHANGE TABLES t AND b ON CLUSTER `c`"),
        ("INSERT INTO t (n) SELECT 1", "INSERT INTO t (n) SELECT 1"),
    ],
)
def test_every_other_definition_names_the_cluster_and_an_insert_does_not(one_server: str, cluster: str) -> None:
    assert on_cluster(one_server, "c") == cluster


def test_a_definition_of_another_form_is_refused() -> None:
    with pytest.raises(ConfigError, match="extend on_cluster for it: RENAME TABLE a TO b"):
        on_cluster("RENAME TABLE a TO b", "c")


async def test_the_engine_parses_every_migration_for_a_cluster(empty: ClickHouse) -> None:
    async with connect(empty.address, database="default") as client:
        for statement in STATEMENTS:
            query = on_cluster(statement, "news")
            if statement.startswith("INSERT"):
                continue
            (row,) = (await client.query("SELECT formatQuery({sql:String})", {"sql": query})).rows
            assert len(re.findall(r"ON CLUSTER news\b", row[0])) == 1, statement
            assert not re.search(r"ENGINE = (?!Replicated)\w*MergeTree|non_replicated", row[0]), statement


async def test_a_migration_of_a_cluster_that_the_server_does_not_know_says_so(empty: ClickHouse) -> None:
    async with connect(empty.address, database=empty.database, cluster="elsewhere") as client:
        with pytest.raises(PermanentError, match="elsewhere"):
            await migrate(client)
