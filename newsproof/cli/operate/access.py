"""``newsproof kafka`` and ``newsproof analyst``: how other programs connect to the servers."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

import typer

from infra.kafka.topics import KafkaAddress
from newsproof.app.analysts import analyst_address
from newsproof.app.invocation import Invocation, json_line, of, run, say_result, table
from newsproof.app.servers import password_file, running_clickhouse, running_kafka, with_data
from newsproof.cli.options import JsonObject, commands
from schemas.errors import ConfigError
from schemas.topics import Topics

app = commands()


@app.command()
def kafka(ctx: typer.Context, as_json: JsonObject = False) -> None:
    """Print how confluent-kafka, kcat, Kafka's own tools and bots connect to the embedded Kafka.

    Prints the password, too.
    """
    found, ways = run(kafka_login(of(ctx)))
    if as_json:
        json_line(found | ways)
        return
    table(("what", "value"), list(found.items()))
    for client, lines in ways.items():
        say_result(f"\n{client}:\n{lines}")


@app.command()
def analyst(ctx: typer.Context, as_json: JsonObject = False) -> None:
    """Print how BI tools, clickhouse-connect and curl connect to ClickHouse as the analyst user.

    Prints the password, too.
    """
    found = run(analyst_login(of(ctx)))
    if as_json:
        json_line(found)
        return
    table(("what", "value"), [(name, value) for name, value in found.items() if name != "curl"])
    say_result(found["curl"])


async def kafka_login(invocation: Invocation) -> tuple[dict[str, str], dict[str, str]]:
    """Return the login of the running embedded Kafka, and settings for each kind of client, ready to copy.

    No command line holds the password, because other users of the machine could read it there.

    Raises:
        ConfigError: no embedded Kafka runs, or ``KAFKA_BOOTSTRAP_SERVERS`` names another one.
    """
    settings = await with_data(invocation.settings(), given=invocation.data_dir_given)
    if settings.kafka_bootstrap_servers:
        raise ConfigError(
            f"KAFKA_BOOTSTRAP_SERVERS is {settings.kafka_bootstrap_servers}, so the settings decide: clients log in there as "
            "KAFKA_SECURITY_PROTOCOL and its neighbours say (`newsproof config` shows them); unset it to ask for the embedded one"
        )
    directory = settings.newsproof_data_dir
    bootstrap = await running_kafka(directory / "kafka")
    if bootstrap is None:
        raise ConfigError(f"no embedded Kafka is running in {directory}: start one with `newsproof up`")
    address = KafkaAddress.embedded(bootstrap, password_file(directory / "kafka"))
    found = {
        "bootstrap": address.bootstrap,
        "protocol": f"{address.security_protocol}, {address.sasl_mechanism}",
        "user": str(address.username),
        "password": str(address.password),
        "password_file": str(address.password_file),
    }
    return found, _ways(address, Topics(settings.topic_prefix).signals, directory.absolute())


def _ways(address: KafkaAddress, topic: str, directory: Path) -> dict[str, str]:
    user, password, file = address.username, address.password, str(address.password_file)
    protocol, mechanism = address.security_protocol, address.sasl_mechanism
    common = f"security.protocol={protocol}\nsasl.mechanism={mechanism}"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "bots": f"# publish() and subscribe() of newsproof need no password. In another directory, set:\n"
        f"export NEWSPROOF_DATA_DIR={quote(str(directory))}",
        "confluent_kafka": f'{{"bootstrap.servers": "{address.bootstrap}", "security.protocol": "{protocol}",\n'
        f' "sasl.mechanism": "{mechanism}", "sasl.username": "{user}", "sasl.password": open({file!r}).read()}}',
        "kcat": f"# kcat -F kcat.conf -C -t {topic}, where kcat.conf (chmod 600) holds:\n"
        f"bootstrap.servers={address.bootstrap}\n{common}\nsasl.username={user}\nsasl.password={password}",
        "kafka_tools": f"# kafka-topics.sh --bootstrap-server {address.bootstrap} --list --command-config client.properties,\n"
        f"# where client.properties (chmod 600) holds:\n{common}\n"
        f'sasl.jaas.config={module} required username="{user}" password="{password}";',
    }


async def analyst_login(invocation: Invocation) -> dict[str, str]:
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
