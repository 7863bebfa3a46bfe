"""``newsproof analyst``: address and login of ClickHouse, for analysts' tools."""

from __future__ import annotations

from shlex import quote

from newsproof.app.analysts import analyst_address
from newsproof.app.invocation import Invocation
from newsproof.app.servers import running_clickhouse, with_data
from schemas.errors import ConfigError


async def reached_at(invocation: Invocation) -> dict[str, str]:
    """Return url, host, port, user, password, database and a working curl command.

    Raises:
        ConfigError: no engine runs, or the analysts' password at ``CLICKHOUSE_URL`` is unknown.
    """
    settings = await with_data(invocation.settings(), given=invocation.data_dir_given)
    embedded = settings.clickhouse_url is None
    if embedded:
        url = await running_clickhouse(settings.newsproof_data_dir / "clickhouse")
        if url is None:
            raise ConfigError(
                "no embedded ClickHouse is running: start one with `newsproof up`. Set CLICKHOUSE_PORT for a fixed port"
            )
        settings = settings.model_copy(update={"clickhouse_url": url})
    address = analyst_address(settings, embedded=embedded)
    if address is None:
        raise ConfigError(
            "CLICKHOUSE_ANALYST_PASSWORD is not set: set it to the password of the analyst user at CLICKHOUSE_URL "
            "(infra/docker/clickhouse has the user's rights)"
        )
    url = f"{'https' if address.secure else 'http'}://{address.host}:{address.port}/"
    database = settings.clickhouse_database
    return {
        "url": url,
        "host": address.host,
        "port": str(address.port),
        "user": address.username,
        "password": address.password,
        "database": database,
        "curl": f"curl {url}?database={database} --user {quote(f'{address.username}:{address.password}')} "
        "--data-binary 'SELECT * FROM v_cost_by_step FORMAT PrettyCompact'",
    }
