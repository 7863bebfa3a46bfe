"""Headers and statuses of ClickHouse's HTTP protocol.

Source: https://clickhouse.com/docs/en/interfaces/http and, for the statuses,
``exceptionCodeToHTTPStatus`` in ClickHouse's ``src/Server/HTTP``.
"""

from __future__ import annotations

import base64
import errno
import hmac
import ipaddress
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec
import psutil

from infra.embedded.child import port_owner
from schemas.errors import ConfigError

NOT_SETTINGS = frozenset(
    {
        "query", "database", "default_format", "query_id", "session_id", "session_timeout", "session_check",
        "close_session", "user", "password", "quota_key", "wait_end_of_query", "buffer_size", "compress", "decompress",
        "stacktrace", "role", "client_protocol_version",
    }
)  # fmt: skip
"""URL parameters of the protocol itself. All others are settings, or ``param_…``."""

_STATUS = {
    # Unknown table, function, identifier, type, storage, database, setting, format, type of query…
    **dict.fromkeys((16, 46, 47, 50, 56, 60, 63, 73, 78, 81, 82, 115), 404),
    # Values that cannot be parsed, or do not fit their type.
    **dict.fromkeys(
        (6, 26, 27, 36, 38, 41, 42, 43, 53, 62, 69, 70, 72, 117, 130, 131, 190, 306, 321, 427, 441, 456), 400
    ),
    **dict.fromkeys((164, 192, 193, 194, 497, 516), 403),
    48: 501,
    158: 413,
    159: 408,
    229: 413,
    439: 503,
}
_TYPES = {
    "JSON": "application/json; charset=UTF-8",
    "JSONCompact": "application/json; charset=UTF-8",
    "JSONStrings": "application/json; charset=UTF-8",
    "JSONEachRow": "application/x-ndjson; charset=UTF-8",
    "CSV": "text/csv; charset=UTF-8; header=absent",
    "CSVWithNames": "text/csv; charset=UTF-8; header=present",
    "TabSeparated": "text/tab-separated-values; charset=UTF-8",
    "TSV": "text/tab-separated-values; charset=UTF-8",
    "XML": "application/xml; charset=UTF-8",
    "Parquet": "application/vnd.apache.parquet",
    "Arrow": "application/vnd.apache.arrow.file",
    "ArrowStream": "application/vnd.apache.arrow.stream",
}
_BINARY = ("Native", "RowBinary", "ORC", "Avro", "MsgPack", "BSON", "Npy", "Protobuf", "CapnProto")


class EngineUser(msgspec.Struct, frozen=True):
    """A user who may send statements: any, or with ``databases`` only statements that read those databases.

    What a restricted user may do is in ``infra.embedded.clickhouse.access``. ``settings`` are that user's limits, which
    no request can loosen.
    """

    name: str
    password: str = ""
    settings: dict[str, str] = {}
    databases: tuple[str, ...] = ()


def content_type(shape: str) -> str:
    if shape.startswith(_BINARY):
        return "application/octet-stream"
    return _TYPES.get(shape, "text/plain; charset=UTF-8")


def status_of(code: int) -> int:
    """Return the HTTP status for ClickHouse's error number; 500 if it has no other."""
    return _STATUS.get(code, 500)


def credentials(headers: Mapping[str, str], query: Mapping[str, str]) -> tuple[str, str]:
    """Return the user and password from X-ClickHouse-User and -Key, else from basic auth, else from URL parameters."""
    if "X-ClickHouse-User" in headers or "X-ClickHouse-Key" in headers:
        return headers.get("X-ClickHouse-User", "default"), headers.get("X-ClickHouse-Key", "")
    scheme, _, encoded = headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except ValueError:  # not Base64, not ASCII, not UTF-8
            return "", ""
        return name, password
    return query.get("user", "default"), query.get("password", "")


def matching_user(users: Mapping[str, EngineUser], name: str, password: str) -> EngineUser | None:
    """Return the user if name and password are correct. Takes equally long for a wrong name and a wrong password."""
    user = users.get(name)
    expected = user.password if user is not None else "\0"
    right = hmac.compare_digest(password.encode("utf-8", "surrogateescape"), expected.encode())
    return user if right else None


def is_loopback(host: str) -> bool:
    """Return whether a Host or Origin header names this machine."""
    try:
        name = urlsplit(host if "://" in host else f"//{host}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def loopback_socket(port: int) -> socket.socket:
    """Return a socket bound to ``port`` of 127.0.0.1 (0: the system chooses). Raises ConfigError if that fails."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as exc:
        listener.close()
        taken = exc.errno == errno.EADDRINUSE
        why = f", which is in use by {port_owner(port)}: stop that process," if taken else f" ({exc.strerror}):"
        raise ConfigError(
            f"ClickHouse cannot listen on port {port} of 127.0.0.1{why} choose another port (CLICKHOUSE_PORT), or unset "
            "it for any free port"
        ) from exc
    return listener


def default_memory_bytes() -> int:
    """Return the engine's memory limit: a third of the machine's memory, at least 1 GiB, at most 4 GiB.

    Kafka, workers and the web page share the machine; below 1 GiB, merges of wide tables start to fail.
    """
    total: int = psutil.virtual_memory().total
    return min(4 * 1024**3, max(1024**3, total // 3))
