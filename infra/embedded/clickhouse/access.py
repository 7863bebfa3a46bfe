"""Access control of the embedded engine for users who may only read some databases: analysts, BI tools.

There are three barriers, in the order in which a statement passes them:

1. A check of the statement as parsed by the engine itself (``parseQueryToJSON``): its kind, and the functions, table
   functions and ``system`` tables in it. This stops everything that no access right covers in an embedded engine:
   ``file()`` as a plain function, ``hasColumnInTable`` for another host, formats that read a schema file.
2. ClickHouse's access control: a role with SELECT on those databases and nothing else. The engine has one user, and
   roles from a file, so a request takes its role (``SET ROLE``) on a connection that lives for that one statement.
3. ``readonly=1`` and limits on time, memory and result size, set after the request's own settings.

A ClickHouse server needs only the second and third, because it has real users: ``infra/docker/clickhouse``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import orjson

from infra.embedded.clickhouse.wire import EngineUser

SYSTEM_TABLES = frozenset(
    {
        *("collations", "columns", "completions", "contributors", "current_roles", "data_type_families", "databases"),
        *("documentation", "enabled_roles", "formats", "functions", "keywords", "licenses", "numbers", "numbers_mt"),
        *("one", "primes", "settings", "table_engines", "table_functions", "tables", "time_zones", "tokenizers"),
        *("unicode", "zeros", "zeros_mt", "aggregate_function_combinators", "build_options"),
    }
)
"""Tables of ``system`` that clients and BI tools read to connect. In ``tables`` and ``columns``, the engine shows only
what the role may read. Excluded are tables about other users' queries (processes), paths (disks, parts), server
settings, errors and stacks."""
TABLE_FUNCTIONS = frozenset(
    {"numbers", "numbers_mt", "zeros", "zeros_mt", "generateseries", "generate_series", "primes", "view"}
)
"""Allowed table functions, in lower case. They only compute; all others read something, except those that take a
structure as text (``values``, ``null``, ``generateRandom``). These are excluded because the text may contain an
expression, such as ``b String ALIAS file('…')``, that is not in the parse tree."""

DENIED_FUNCTIONS = re.compile(
    r"(file|hasColumnInTable|catboostEvaluate|evalMLMethod|joinGet\w*|get(Macro|ServerSetting|ServerPort|MergeTreeSetting)"
    r"|tcpPort|getClientHTTPHeader|currentRequestURL|serverUUID|getOSKernelVersion|filesystem\w+|sleep|sleepEachRow"
    r"|addressTo\w+|demangle|logTrace|tid|zookeeperSessionUptime|generateSerialID|dict(Get|Has|IsIn)\w*|region(To|In|Hierarchy)\w*"
    r"|ai(Classify|Embed|Extract|Filter|Generate|Redact|Similarity|Translate)\w*)\Z",
    re.IGNORECASE,
)
"""Functions that read files, call other hosts, language models or dictionaries, reveal facts about the server, or only
delay it. All other functions only compute; a test checks the functions of a new engine version."""
_KINDS = frozenset(
    {
        *("SelectWithUnionQuery", "SelectQuery", "SelectIntersectExceptQuery", "ExplainQuery", "ShowTablesQuery"),
        *("ShowColumnsQuery", "ShowFunctionsQuery", "ShowIndexesQuery"),
    }
)
_NAME = r"(?:[A-Za-z_][A-Za-z0-9_]*|`[ \w!-\[\]-_a-~]+`)"
_WITHOUT_JSON = re.compile(
    rf"(?:(?:DESCRIBE TABLE|(?:SHOW CREATE|EXISTS) (?:TABLE|VIEW|DATABASE)) (?P<name>{_NAME}(?:\.{_NAME})?)"
    r"|SHOW FUNCTIONS(?: I?LIKE '[ -&(-\[\]-~]*')?|SHOW ENGINES|SHOW SETTING [A-Za-z0-9_]+)"
    r"(?: FORMAT [A-Za-z][A-Za-z0-9]*)?\Z"
)
"""Allowed statements of the kinds for which the engine has no JSON tree, in the form that the engine prints: in ASCII
except for letters of quoted names, with one blank between words. A backquote or a backslash in a name, or a quote in a
pattern, is not allowed."""
_EXPLAINED = frozenset(
    {"EXPLAIN", "EXPLAIN AST", "EXPLAIN SYNTAX", "EXPLAIN QUERY TREE", "EXPLAIN PIPELINE", "EXPLAIN ESTIMATE"}
)
_NO_JSON = "does not support JSON serialization"

TIGHTENED = frozenset(
    {
        *("max_execution_time", "max_memory_usage", "max_result_rows", "max_result_bytes", "max_rows_to_read"),
        *("max_bytes_to_read", "max_threads", "max_block_size", "limit"),
    }
)
_FREE = re.compile(
    r"(enable_http_compression|http_zlib_compression_level|send_progress_in_http_headers|http_headers_progress_interval_ms"
    r"|http_wait_end_of_query|http_write_exception_in_output_format|http_make_head_request|http_response_buffer_size"
    r"|cancel_http_readonly_queries_on_client_close|add_http_cors_header|extremes|join_use_nulls|final|offset"
    r"|date_time_(in|out)put_format|session_timezone|timezone|result_overflow_mode|connect_timeout|receive_timeout"
    r"|send_timeout|use_client_time_zone|prefer_column_name_to_alias|union_default_mode|log_queries"
    r"|show_table_uuid_in_table_create_query_if_not_nil|allow_experimental_\w+|enable_\w+_type"
    r"|output_format_(json|csv|tsv|pretty|native|arrow|parquet|decimal|markdown|values|xml|write|float|binary)\w*"
    r"|format_(csv|tsv)_\w+|count_distinct_implementation|transform_null_in|cast_keep_nullable)\Z"
)
"""Request settings that only change how a result is computed or written. Settings that let a format read a file of the
server (format_schema, format_template_*) are not among them."""

_ONLY = "statements other than SELECT, WITH, SHOW TABLES, SHOW CREATE, DESCRIBE, EXISTS and EXPLAIN on tables by name"
_NUMBER = re.compile(r"([0-9]{1,40})(?:\.[0-9]{0,40})?\Z")
_ACCESS_DENIED, _READONLY, _NO_NUMBER = 497, 164, 72


class AccessDeniedError(Exception):
    """The user may not send this statement; ``code`` is ClickHouse's error number."""

    def __init__(self, code: int, message: str) -> None:
        name = {_ACCESS_DENIED: "ACCESS_DENIED", _READONLY: "READONLY", _NO_NUMBER: "CANNOT_PARSE_NUMBER"}[code]
        super().__init__(f"Code: {code}. DB::Exception: {message} ({name})")
        self.code = code


def role_of(user: EngineUser) -> str:
    """Return the role that a restricted user's statements run with."""
    return "reader_" + "".join(c if c.isascii() and c.isalnum() else f"_{ord(c):x}_" for c in user.name)


def write_access(directory: Path, users: Sequence[EngineUser]) -> Path:
    """Write the engine's configuration, with one role for each restricted user; return its path.

    The files contain names and rights, but no passwords.
    """
    readers = "".join(
        f"<{role_of(user)}><grants>"
        + "".join(f"<query>{escape(f'GRANT SELECT ON `{_quoted(name)}`.*')}</query>" for name in user.databases)
        + f"</grants></{role_of(user)}>"
        for user in users
        if user.databases
    )
    granted = "".join(f"<query>GRANT {role_of(user)}</query>" for user in users if user.databases)
    (directory / "users.xml").write_text(
        "<clickhouse><profiles><default/></profiles><quotas><default/></quotas><roles>"
        f"<all_rights><grants><query>GRANT ALL ON *.* WITH GRANT OPTION</query></grants></all_rights>{readers}</roles>"
        "<users><default><no_password/><profile>default</profile><quota>default</quota><networks><ip>::/0</ip></networks>"
        f"<grants><query>GRANT all_rights</query>{granted}</grants></default></users></clickhouse>\n",
        "utf-8",
    )
    config = directory / "config.xml"
    config.write_text(
        f"<clickhouse><users_config>{escape(str(directory / 'users.xml'))}</users_config></clickhouse>\n", "utf-8"
    )
    return config


def _quoted(name: str) -> str:
    return name.replace("\\", "\\\\").replace("`", "\\`")


def settings_for(user: EngineUser, asked: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for a restricted user's statement: the user's own, and the harmless ones of the request.

    A request may tighten a limit, but never loosen it.

    Raises:
        AccessDeniedError: the request sets anything else, or a limit that is not a number.
    """
    chosen = dict(user.settings)
    for name, value in asked.items():
        if name in TIGHTENED:
            own = chosen.get(name, "0")
            whole = _NUMBER.match(value)  # ClickHouse accepts fractions of seconds
            if whole is None:
                raise AccessDeniedError(_NO_NUMBER, f"The limit {name} must be a number, not {value[:20]!r}.")
            if int(whole[1]) > 0 and (own == "0" or int(whole[1]) < int(own)):
                chosen[name] = whole[1]
        elif _FREE.match(name):
            chosen[name] = value
        elif name != "readonly":
            raise AccessDeniedError(
                _READONLY, f"Cannot modify '{name[:60]}' setting in readonly mode: leave it out, this user only reads."
            )
    return chosen


Ask = Callable[[str, Mapping[str, str]], str]
"""Runs a statement with parameters on the engine and returns its text. Raises ValueError with the engine's text."""


def check_statement(sql: str, ask: Ask) -> str:
    """Check a restricted user's statement with the engine's own parser; return the text to run.

    Does not run any part of the statement. Returns the given text if the engine has a JSON tree for it, otherwise the
    engine's own print of it. So the checked statement is the one that runs, whatever the given text looks like.

    Raises:
        AccessDeniedError: it is not of a kind that only reads, or something in it reaches outside the user's databases.
        ValueError: the engine cannot parse it; the text is the engine's.
    """
    text = {"statement_text": in_a_row(sql)}
    try:
        tree = orjson.loads(ask("SELECT parseQueryToJSON({statement_text:String})", text))
    except orjson.JSONDecodeError as exc:
        raise ValueError(
            "Code: 306. DB::Exception: The statement is nested too deeply: write its parts WITH names. (TOO_DEEP_RECURSION)"
        ) from exc
    except ValueError as exc:
        if _NO_JSON not in str(exc):
            raise
        return _checked_print(ask("SELECT formatQuerySingleLine({statement_text:String})", text).rstrip("\n"))
    if tree["type"] not in _KINDS:
        raise _denied(_ONLY)
    for node in _nodes(tree):
        _check_node(node)
    return sql


def in_a_row(text: str) -> str:
    """Return the text escaped as a parameter's value, which ClickHouse parses like a field of TabSeparated."""
    return (
        text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r").replace("\0", "\\0")
    )


def _checked_print(canonical: str) -> str:
    match = _WITHOUT_JSON.match(canonical)
    if match is None:
        raise _denied(_ONLY)
    if match["name"]:
        _check_name([part.strip("`") for part in re.findall(_NAME, match["name"])])
    return canonical


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield every node of the tree, in whichever field it is."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)


def _check_node(node: dict[str, Any]) -> None:
    if node.get("out_file") is not None:
        raise _denied("INTO OUTFILE: save the response's body yourself")
    function = node.get("table_function")
    if isinstance(function, dict) and str(function.get("name")).lower() not in TABLE_FUNCTIONS:
        raise _denied(f"the table function {function.get('name')}(): it reaches outside the tables and views here")
    match node.get("type"):
        case "Function":
            _check_function(str(node.get("name")))
        case "ColumnsApplyTransformer":
            _check_function(str(node.get("func_name") or ""))
        case "ExplainQuery" if node.get("kind") not in _EXPLAINED:
            raise _denied(f"{node.get('kind')}")
        case "Identifier" | "TableIdentifier":
            _check_name(node.get("name_parts") or str(node.get("name")).split("."))
        case "QueryParameter" if node.get("param_type") == "Identifier":
            raise _denied("a parameter of type Identifier: write the name into the statement")


def _check_function(name: str) -> None:
    if DENIED_FUNCTIONS.match(name):
        raise _denied(f"the function {name}(): it reads or reaches outside the tables and views here")


def _check_name(parts: Sequence[str]) -> None:
    """Check the name of a table or column. It may be a function without parentheses, as in arrayMap(file, …)."""
    if len(parts) == 1:
        _check_function(parts[0])
    elif parts[0].lower() == "system" and parts[1] not in SYSTEM_TABLES:
        raise _denied(f"system.{parts[1]}: this user may read only system tables about tables, types and formats")


def _denied(what: str) -> AccessDeniedError:
    return AccessDeniedError(_ACCESS_DENIED, f"Not enough privileges: this user may not use {what}.")
