"""``newsproof kafka``: address and login of the embedded Kafka, for other clients."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

from infra.kafka.topics import KafkaAddress
from newsproof.app.invocation import Invocation
from newsproof.app.servers import password_file, running_kafka, with_data
from schemas.errors import ConfigError
from schemas.topics import Topics


async def login_of(invocation: Invocation) -> tuple[dict[str, str], dict[str, str]]:
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
