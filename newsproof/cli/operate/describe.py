"""``newsproof config``, ``prompts``, ``tables``, ``schemas``, ``kafka``, ``analyst``: the configuration, and logins."""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import msgspec
import orjson
import typer
from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from infra.origin import written_in
from infra.settings import SUBJECTS, Settings
from infra.settings.endpoints import gateways, key_name
from newsproof.app import exits
from newsproof.app.invocation import Invocation, of, run
from newsproof.app.sheet import UNWRAPPED, Columns, Sheet, json_line, json_lines, say_result, table
from newsproof.cli.options import JsonObject, argument, commands, json_flag, option
from schemas.config import Snapshot
from schemas.errors import ConfigError
from schemas.events import BY_WIRE_NAME, PREFIX, SCHEMA_VERSIONS
from schemas.news import News
from schemas.signals import SIGNAL_SCHEMA_VERSION, Signal
from schemas.topics import Topics

if TYPE_CHECKING:
    from infra.kafka.topics import KafkaAddress


app = commands()
schemas = typer.Typer(help="Export the public contracts as JSON Schema.", no_args_is_help=True)
app.add_typer(schemas, name="schemas")


@app.command()
def config(
    ctx: typer.Context,
    as_json: Annotated[bool, json_flag("Print JSON, one setting per line.")] = False,
    markdown: Annotated[bool, option("Print docs/settings.md.", "--markdown")] = False,
) -> None:
    """Show every setting, its value and its origin. Secrets are masked."""
    if markdown:
        typer.echo(settings_page(), nl=False)
        return
    invocation = of(ctx)
    given = frozenset({"newsproof_data_dir"} if invocation.data_dir is not None else ())
    shown = views(invocation.settings(), given=given, env_file=invocation.env_file)
    columns: Columns = {"setting": "name", "value": "value", "from": "origin", "meaning": "description"}
    Sheet.of(shown, columns).show(as_json=as_json, piped=UNWRAPPED)


@app.command()
def prompts(
    name: Annotated[str | None, argument("Prompt to print, as NAME or NAME@VERSION.")] = None,
    as_json: Annotated[bool, json_flag("Print JSON, one prompt per line.")] = False,
) -> None:
    """List every version of every prompt with its tier and hash. New cases use the newest version of each."""
    from agents.prompts import all_prompts, load_prompts

    if name is not None:
        wanted, _, version = name.partition("@")
        known = load_prompts(**({wanted: version} if version else {}))
        if wanted not in known:
            raise ConfigError(f"there is no prompt {wanted!r}: `newsproof prompts` lists them")
        json_line(known[wanted]) if as_json else say_result(known[wanted].text.rstrip())
        return
    current = {p.hash for p in load_prompts().values()}
    columns: Columns = {
        "prompt": "name",
        "version": "version",
        "tier": "tier",
        "schema": lambda prompt: "yes" if prompt.schema else "–",
        "max tokens": "max_output_tokens",
        "hash": "hash",
        "in use": lambda prompt: "yes" if prompt.hash in current else "",
    }
    Sheet.of(all_prompts(), columns).show(as_json=as_json)


@schemas.command()
def export(
    directory: Annotated[
        Path | None, argument("Output directory, one file per schema. Default: print one document.")
    ] = None,
) -> None:
    """Write the public contracts as JSON Schema.

    They are news, signals, the configuration snapshot and every event.
    """
    if directory is None:
        json_line(json_schemas())
    else:
        say_result("\n".join(map(str, write_schemas(directory))))


tables = typer.Typer(
    help="Check the editable tables in agents/tables: entities, assets, outlets and platforms.", no_args_is_help=True
)
app.add_typer(tables, name="tables")


@tables.callback()
def _tables() -> None:
    # Without a callback, typer drops the name of a single command.
    pass


@tables.command()
def check(as_json: Annotated[bool, json_flag("Print JSON, one problem per line.")] = False) -> None:
    """Find duplicate rows, rows that can never match, and contradictions.

    Exit status 1 if there are any.
    """
    from agents.tables import load_tables, raw_tables
    from agents.tables.faults import faults_of, file_faults

    read = load_tables(demo=True)
    faults = [*file_faults(raw_tables()), *faults_of(read)]
    if as_json:
        json_lines(faults)
    elif faults:
        table(("file", "row", "what is wrong", "what to do"), [(f.file, f.row, f.what, f.do) for f in faults])
    else:
        entities = [e for e in read.entities if not e.synthetic]
        accounts = sum(len(e.accounts) for e in entities)
        say_result(
            f"No problems: {len(entities)} entities with {accounts} accounts, {len(read.assets)} assets, "
            f"{len(read.outlets)} outlets, {len(read.platforms)} platforms"
        )
    raise typer.Exit(exits.FINDING if faults else exits.OK)


MASK = "••••••••"
Origin = Literal["command line", "environment", ".env", "default"]
_WITH_PASSWORD = re.compile(r"(?<=://)([^:/@]*):([^@]*)@")


class SettingView(msgspec.Struct, frozen=True, kw_only=True):
    """One setting for display. ``value`` is text with secrets masked; None if it is unset."""

    name: str
    value: str | None
    origin: Origin
    description: str


def views(
    settings: Settings, *, given: frozenset[str] = frozenset(), env_file: Path | None = None
) -> list[SettingView]:
    """Return every setting. ``given``: those set on the command line. ``env_file``: the file named there."""
    environment = {name.upper() for name, value in os.environ.items() if value}
    file = {name.upper() for name in written_in(env_file or Path(".env"))}
    shown = []
    for name, field in Settings.model_fields.items():
        for variable, value in _variables(settings, name):
            origin: Origin = "default"
            if name in given:
                origin = "command line"
            elif variable in environment:
                origin = "environment"
            elif variable in file:
                origin = ".env"
            shown.append(
                SettingView(name=variable, value=masked(value), origin=origin, description=field.description or "")
            )
    return shown


def _variables(settings: Settings, name: str) -> list[tuple[str, Any]]:
    """Return (variable, value): one, or for the gateways one per key, set or not."""
    value = getattr(settings, name)
    if isinstance(value, dict):
        entries = dict.fromkeys([*map(key_name, gateways(settings.openai_gateways)), *value])
        return [(f"{name}_{entry}".upper(), value.get(entry)) for entry in entries] or [(name.upper(), None)]
    return [(name.upper(), value)]


def masked(value: Any) -> str | None:
    """Return a value as text without secrets; passwords in URLs are masked, too. None if it is unset."""
    if value is None:
        return None
    if isinstance(value, SecretStr):
        return MASK
    return _WITH_PASSWORD.sub(lambda match: f"{match[1]}:{MASK}@", str(value))


def settings_page() -> str:
    """Return the text of docs/settings.md."""
    lines = [
        "# Settings",
        "",
        "Generated by `newsproof config --markdown`. Newsproof reads settings from environment variables, then from `.env`",
        "in the working directory (`--env-file` names another file). Names are the same in both. An empty value counts as",
        "unset. `newsproof config` prints each value and its origin; `newsproof doctor` lists what is missing.",
        "",
        "**Errors in the file.** A line without `=` is an error. A misspelt setting produces a warning with the closest match.",
        "",
        "**Addresses and keys.** A file cannot redirect a secret: the address that a key is sent to must be set in the same",
        "place as the key, or in the environment. Newsproof takes no such address from a file that others can write or that",
        "another user owns. It takes a provider's address only from a `.env` beside the data directory, or from `--env-file`.",
    ]
    for title, names in _sections():
        fields = [(f"`{name.upper()}`", Settings.model_fields[name]) for name in names]
        rows = [(name, _default(field), _accepts(field), field.description or "") for name, field in fields]
        columns = ("setting", "default", "accepts", "meaning")
        made = Sheet(columns, rows).markdown(lambda cell: cell.replace("|", "\\|"))
        lines += ["", f"## {title}", "", made]
    return "\n".join(lines) + "\n"


def _sections() -> list[tuple[str, list[str]]]:
    """Return (title, settings) in the order of the source, where the comments between the settings are the titles."""
    sections: list[tuple[str, list[str]]] = []
    source = "".join(inspect.getsource(part) for part in SUBJECTS)
    for line in source.splitlines():
        if match := re.fullmatch(r"    # (.+)", line):
            sections.append((match[1], []))
        elif (match := re.match(r"    (\w+): ", line)) and match[1] in Settings.model_fields:
            sections[-1][1].append(match[1])
    return [(title, names) for title, names in sections if names]


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined or field.default is None:
        return "unset"
    text = str(field.default)
    return f"`{text.lower() if isinstance(field.default, bool) else text}`" if text else "empty"


def _accepts(field: FieldInfo) -> str:
    if get_origin(field.annotation) is dict:
        return "secret"
    kinds = [kind for kind in (get_args(field.annotation) or (field.annotation,)) if kind is not type(None)]
    if get_origin(field.annotation) is Literal:
        return ", ".join(f"`{kind}`" for kind in kinds)
    if len(kinds) == 1 and get_origin(kinds[0]) is Literal:
        return ", ".join(f"`{kind}`" for kind in get_args(kinds[0]))
    names = {str: "text", int: "whole number", float: "number", bool: "`true`, `false`", SecretStr: "secret"}
    kind = names.get(kinds[0], "path") if isinstance(kinds[0], type) else "text"
    bounds = [
        f"{sign} {getattr(constraint, key):g}"
        for constraint in field.metadata
        for key, sign in _BOUNDS
        if hasattr(constraint, key)
    ]
    return ", ".join([kind, *bounds])


_BOUNDS = (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<"))
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schemas() -> dict[str, dict[str, Any]]:
    """Return the schemas by name and version, such as ``signal.v1``."""
    kinds: dict[str, Any] = {"news.v1": News, f"signal.v{SIGNAL_SCHEMA_VERSION}": Signal, "config.v1": Snapshot}
    kinds |= {
        f"event.{wire.removeprefix(PREFIX)}.v{SCHEMA_VERSIONS[wire]}": event for wire, event in BY_WIRE_NAME.items()
    }
    return {name: _schema(name, kind) for name, kind in kinds.items()}


def _schema(name: str, kind: Any) -> dict[str, Any]:
    (schema,), components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    if name.startswith("news."):
        # Unknown fields are kept at the top level of the record; the field that holds them in memory is not on the
        # wire.
        components["News"]["properties"].pop("unknown", None)
    return {"$schema": DIALECT, "$id": f"urn:newsproof:{name}", **schema, "$defs": components}


def write_schemas(directory: Path) -> list[Path]:
    """Write one file per schema; return the paths.

    Raises:
        OSError: the directory cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name, schema in json_schemas().items():
        path = directory / f"{name}.schema.json"
        path.write_bytes(orjson.dumps(schema, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        written.append(path)
    return written


@app.command()
def kafka(ctx: typer.Context, as_json: JsonObject = False) -> None:
    """Print how confluent-kafka, kcat, Kafka's own tools and bots connect to the embedded Kafka.

    Prints the password, too.
    """
    login, ways = run(kafka_login(of(ctx)))
    if as_json:
        json_line(login | ways)
        return
    table(("what", "value"), list(login.items()))
    for client, lines in ways.items():
        say_result(f"\n{client}:\n{lines}")


@app.command()
def analyst(ctx: typer.Context, as_json: JsonObject = False) -> None:
    """Print how BI tools, clickhouse-connect and curl connect to ClickHouse as the analyst user.

    Names the file or the setting that holds the password. Only --json prints the password itself.
    """
    login = run(analyst_login(of(ctx)))
    if as_json:
        json_line(login)
        return
    file = login["password_file"]
    shown = login | {"password": f"in the file {file}" if file else "as CLICKHOUSE_ANALYST_PASSWORD says"}
    table(("what", "value"), [(name, value) for name, value in shown.items() if name not in ("curl", "password_file")])
    say_result(login["curl"])


async def kafka_login(invocation: Invocation) -> tuple[dict[str, str], dict[str, str]]:
    """Return the login of the running embedded Kafka, and settings for each kind of client, ready to copy.

    No command line holds the password, because other users of the machine could read it there.

    Raises:
        ConfigError: no embedded Kafka runs, or ``KAFKA_BOOTSTRAP_SERVERS`` names another one.
    """
    from infra.kafka.topics import KafkaAddress
    from newsproof.app.servers import password_file, running_kafka, with_data

    settings = await with_data(invocation.settings(), given=invocation.data_dir_given)
    if settings.kafka_bootstrap_servers:
        raise ConfigError(
            f"KAFKA_BOOTSTRAP_SERVERS is {settings.kafka_bootstrap_servers}, so the settings decide: clients log in there as "
            "KAFKA_SECURITY_PROTOCOL and the related settings say (`newsproof config` shows them); unset it to get the embedded one's"
        )
    directory = settings.newsproof_data_dir
    bootstrap = await running_kafka(directory / "kafka")
    if bootstrap is None:
        raise ConfigError(f"no embedded Kafka is running in {directory}: start one with `newsproof up`")
    address = KafkaAddress.embedded(bootstrap, password_file(directory / "kafka"))
    login = {
        "bootstrap": address.bootstrap,
        "protocol": f"{address.security_protocol}, {address.sasl_mechanism}",
        "user": str(address.username),
        "password": str(address.password),
        "password_file": str(address.password_file),
    }
    return login, _ways(address, Topics(settings.topic_prefix).signals, directory.absolute())


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
    """Return url, host, port, user, password, its file ("" if a setting holds it), database and a working curl command.

    No command line holds the password, because other users of the machine could read it there.

    Raises:
        ConfigError: no engine runs, or the analysts' password at ``CLICKHOUSE_URL`` is unknown.
    """
    from newsproof.app.analysts import ANALYST_FILE, analyst_address
    from newsproof.app.servers import running_clickhouse, with_data

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
    file = str((settings.newsproof_data_dir / "clickhouse" / ANALYST_FILE).absolute()) if embedded else ""
    secret = f"$(cat {quote(file)})" if embedded else "$CLICKHOUSE_ANALYST_PASSWORD"
    return {
        "url": url,
        "host": address.host,
        "port": str(address.port),
        "user": address.username,
        "password": address.password,
        "password_file": file,
        "database": database,
        "curl": f"printf 'X-ClickHouse-Key: %s\\n' \"{secret}\" | curl -sS -H @- -H {quote(f'X-ClickHouse-User: {address.username}')} "
        f"{quote(f'{url}?database={database}')} --data-binary 'SELECT * FROM v_cost_by_step FORMAT PrettyCompact'",
    }
