"""Situations of every provider: time, connections, statuses and bodies."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import orjson

from tests.conformance.rows import (
    EVERYBODY,
    JSON,
    LOST,
    SHORT_S,
    USELESS,
    WITH_KEY,
    Must,
    Row,
    body_of,
    cut_short,
    failing,
    good,
    say,
    with_body,
)
from tests.infra.fakes.server import Drip, Flood, HangUp, Reset, Say, StaySilent


def rate_limited_until_a_date(server: Any, request: Any) -> Say:
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    error: Say = server.error(429, "slow down", {"retry-after": at})
    return error


def twice_first(body: bytes) -> bytes:
    """Put every name of the object there a second time before it, with null: the last of two counts."""
    names = b",".join(orjson.dumps(name) + b":null" for name in orjson.loads(body))
    return b"{" + names + (b"," if names else b"") + body[1:]


HTML = b"<!doctype html><html><head><title>Just a moment...</title></head><body>Checking your browser</body></html>"
GENERAL = (
    Row("good", EVERYBODY, "a valid response", Must(), good),
    Row(
        *("late", EVERYBODY, "nothing, beyond the timeout"),
        Must("timeout", again=True, cost="unknown", breaker="counts", says=("did not respond within",)),
        say(StaySilent()),
        settings={"timeout_s": SHORT_S},
    ),
    Row(
        *("slow drip", EVERYBODY, "a body that comes byte by byte and does not end"),
        Must("timeout", again=True, cost="unknown", breaker="counts"),
        say(Drip()),
        settings={"timeout_s": SHORT_S},
    ),
    Row("cut", EVERYBODY, "half of the body, then the connection is reset", LOST, cut_short),
    Row("hung up", EVERYBODY, "no response: the connection is closed", LOST, say(HangUp())),
    Row("not HTTP", EVERYBODY, "another protocol", LOST, say(Reset(after=b"SSH-2.0-x\r\n\r\n"))),
    Row(
        *("redirect", EVERYBODY, "302 to another address, which is not followed: the key would go there"),
        Must("not_configured", cost="nothing", says=("write the final",)),
        say(Say(b"", status=302, headers={"location": "http://127.0.0.1:9/"})),
    ),
    Row(
        *("broken", EVERYBODY, "500"),
        Must("unavailable", again=True, cost="nothing", breaker="counts"),
        failing(500),
    ),
    Row(
        *("overloaded", EVERYBODY, "503 with Retry-After: 20"),
        Must("unavailable", again=True, cost="nothing", breaker="counts", wait_s=20),
        failing(503, "The model is overloaded. Please try again later.", retry_after="20"),
    ),
    Row(
        *("gateway's timeout", EVERYBODY, "504: the response may have been generated and charged"),
        Must("timeout", again=True, cost="unknown", breaker="counts"),
        failing(504),
    ),
    Row(
        *("rate-limited, seconds", EVERYBODY, "429 with Retry-After: 7"),
        Must("rate_limit", again=True, cost="nothing", breaker="opens", wait_s=7),
        failing(429, "slow down", retry_after="7"),
    ),
    Row(
        *("rate-limited, date", EVERYBODY, "429 with Retry-After as a date, a minute ahead"),
        Must("rate_limit", again=True, cost="nothing", breaker="opens", until="a minute from now"),
        rate_limited_until_a_date,
    ),
    Row(
        *("rate-limited", EVERYBODY, "429 without Retry-After"),
        Must("rate_limit", again=True, cost="nothing", breaker="opens"),
        failing(429, "slow down"),
    ),
    Row(
        *("refused key", WITH_KEY, "the provider's own response to a wrong key"),
        Must("auth", cost="nothing", breaker="opens", says=("_API_KEY",)),
        good,
        settings={"api_key": "another-key"},
        refused=1,
    ),
    Row(
        *("HTML", EVERYBODY, "200 with a page of HTML, as proxies and guards send"),
        USELESS,
        say(Say(HTML, headers={"content-type": "text/html"})),
    ),
    Row(
        "truncated",
        EVERYBODY,
        "200 with the first half of the response",
        USELESS,
        with_body(lambda b: b[: len(b) // 2]),
    ),
    Row("empty body", EVERYBODY, "200 with nothing", USELESS, say(Say(b""))),
    Row(
        *("204", EVERYBODY, "204 without a body: not a provider's response, so another service is at the address"),
        Must("not_configured", cost="nothing"),
        say(Say(b"", status=204)),
    ),
    Row(
        *("too large", EVERYBODY, "a body without end"),
        Must("too_large", cost="unknown"),
        say(Flood()),
        settings={"max_response_bytes": 200_000},
    ),
    Row(
        *("too large, announced", EVERYBODY, "a content-length of a terabyte"),
        Must("too_large", cost="unknown"),
        say(Flood(announced=10**12)),
        settings={"max_response_bytes": 200_000},
    ),
    Row(
        *("too large, packed", EVERYBODY, "300 kB of blanks in a kilobyte of gzip, where 200 kB are allowed"),
        Must("too_large", cost="unknown"),
        say(Say(b" " * 300_000, packed=True)),
        settings={"max_response_bytes": 200_000},
    ),
    Row(
        *("gzip", EVERYBODY, "a valid response in gzip"),
        Must(),
        lambda server, request: Say(body_of(good(server, request)), packed=True),
    ),
    Row(
        *("broken gzip", EVERYBODY, "content-encoding gzip, and no gzip"),
        LOST,
        with_body(lambda body: body, content_encoding="gzip"),
    ),
    Row(
        *("another packing", EVERYBODY, "content-encoding br, which was not requested"),
        LOST,
        with_body(lambda body: body, content_encoding="br"),
    ),
    Row(
        *("wrong charset", JSON, "a valid response in UTF-8 whose header says punycode"),
        Must(),
        with_body(lambda body: body, content_type="application/json; charset=punycode"),
    ),
    Row(
        *("duplicate keys", JSON, "every key of the response twice, first with null: the last one counts"),
        Must(),
        with_body(twice_first),
    ),
    Row(
        *("deep nesting", JSON, "a hundred thousand open brackets"),
        USELESS,
        say(Say(b"[" * 100_000)),
    ),
    Row(
        *("another shape", JSON, "JSON of another shape: a list with a number"),
        USELESS,
        say(Say(b"[7]")),
    ),
)
