"""``newsproof sql``: one statement on ClickHouse, as a table, CSV or JSON lines."""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING

from infra.clickhouse.client import ClickHouse, Result
from newsproof.bootstrap import clickhouse_of
from newsproof.invocation import Invocation, json_line, table
from newsproof.servers import servers, with_data
from newsproof.supervisor import prepare_tables
from schemas.errors import ConfigError, PermanentError

if TYPE_CHECKING:
    from newsproof.commands.tables import Format

_NO_ROWS = ("INSERT", "CREATE", "ALTER", "DROP", "TRUNCATE", "OPTIMIZE", "RENAME", "SET", "USE", "SYSTEM", "DELETE")


async def show(invocation: Invocation, query: str, format: Format) -> None:
    """Run the statement and print its rows.

    Raises:
        ConfigError: the statement is empty.
        PermanentError: ClickHouse refuses it.
    """
    if not query.strip():
        raise ConfigError('the statement is empty: write one, such as "SELECT * FROM v_cost_by_step"')
    settings = await with_data(invocation.settings(), given=invocation.data_dir_given)
    async with servers(settings, kafka=False) as found:
        at = found.applied_to(settings)
        if "clickhouse" in found.own:
            await prepare_tables(at)
        async with clickhouse_of(at) as client:
            result = await _ask(client, query)
    if result is not None:
        _print(result, format)


async def _ask(client: ClickHouse, query: str) -> Result | None:
    if query.lstrip().split(None, 1)[0].upper() in _NO_ROWS:
        await client.command(query)
        return None
    try:
        return await client.query(query)
    except PermanentError as exc:
        raise PermanentError(f'{exc} (the tables: newsproof sql "SHOW TABLES")') from exc


def _print(result: Result, format: Format) -> None:
    if format == "json":
        for row in result.dicts():
            json_line(row)
    elif format == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(result.columns)
        writer.writerows(result.rows)
    else:
        table(result.columns, result.rows)
