"""What channels answer, and what a bot makes of it: one row each. docs/conformance.md lists them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from infra.bots.notify import ALL
from tests.conformance.channels.servers import SERVERS, RobotServer
from tests.infra.fakes.server import HangUp, Say

HTML = b"<!doctype html><html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
EVERY = tuple(SERVERS)
ROBOTS = tuple(name for name, server in SERVERS.items() if issubclass(server, RobotServer))


@dataclass(frozen=True)
class ChannelRow:
    """One situation. ``outcome`` and ``wait_s``: of the adapter's result. ``texts``: how many messages readers got.

    ``once``: the situation ends after the first request. ``says``: what the reason names.
    """

    name: str
    channels: tuple[str, ...]
    answers: str
    outcome: str
    does: str
    situation: Callable[[Any, Any], Any]
    wait_s: dict[str, float] | float = 0.0
    texts: int = 0
    once: bool = False
    says: str = ""


def _silence(name: str) -> float:
    return {"dingtalk": 600.0, "ntfy": 60.0, "feishu": 60.0, "wecom": 60.0}.get(name, 7.0)


ROWS = (
    ChannelRow("sent", EVERY, "the message is accepted", "delivered", "delivered", lambda s, r: s.answer(r), texts=1),
    ChannelRow(
        *("throttled", EVERY, "too many messages, in the channel's own words; group robots respond with 200"),
        *(
            "throttled",
            "messages wait as long as the channel asks (DingTalk: 10 minutes; if it names no time, a minute)",
        ),
        lambda s, r: s.throttled(),
        {name: _silence(name) for name in EVERY},
    ),
    ChannelRow(
        *("overloaded", EVERY, "503 with Retry-After: 20", "throttled", "messages wait as long as the channel asks"),
        lambda s, r: s.error(503, "busy", {"retry-after": "20"}),
        20.0,
    ),
    ChannelRow(
        *("too long", EVERY, "the message is too long, in the channel's own words"),
        *("delivered", "only the first line, which has no text from the news but the asset, is sent, with the link"),
        lambda s, r: s.too_long(),
        texts=1,
        once=True,
        says="its first line was sent",
    ),
    ChannelRow(
        *("refused", EVERY, "the message is refused, in the channel's own words", "refused", "the delivery is refused"),
        lambda s, r: s.error(400, "no"),
    ),
    ChannelRow(
        *("HTML, 200", EVERY, "200 with a page of HTML, as proxies send"),
        *("unknown", "it may have been sent: an order is not sent again, a retraction is"),
        lambda s, r: Say(HTML, headers={"content-type": "text/html"}),
    ),
    ChannelRow(
        *("HTML, 403", EVERY, "403 with a page of HTML, as a firewall on the way sends"),
        *("throttled", "messages wait a minute (DingTalk: 10 minutes)"),
        lambda s, r: Say(HTML, status=403, headers={"content-type": "text/html"}),
        {name: 600.0 if name == "dingtalk" else 60.0 for name in EVERY},
    ),
    ChannelRow(
        *("HTML, 502", EVERY, "502 with a page of HTML", "unknown", "as above"),
        lambda s, r: Say(HTML, status=502, headers={"content-type": "text/html"}),
    ),
    ChannelRow(
        "hung up", EVERY, "the connection is closed without a response", "unknown", "as above", lambda s, r: HangUp()
    ),
    ChannelRow(
        *("wrong token", EVERY, "the token is wrong, in the channel's own words; group robots respond with 200"),
        *("disabled", "the bot stops and names its setting; nothing is settled, so nothing is lost"),
        lambda s, r: s.error(401 if r.headers.get("authorization") else 404),
        says="BOT_SECRET_DESK",
    ),
    ChannelRow(
        *(
            "wrong signature",
            ("feishu", "dingtalk"),
            "the signature does not match: 19021, 310000",
            "disabled",
            "as above",
        ),
        lambda s, r: s.coded("wrong signature"),
        says="BOT_SECRET_DESK",
    ),
)


def page() -> str:
    """Return the part of docs/conformance.md about channels."""
    sources = "".join(
        f"| {name} | {server.document.source} | {server.document.looked_up} |\n" for name, server in SERVERS.items()
    )
    rates = "".join(
        f"| {name} | {', '.join(f'{n} in {s:g} s' for n, s in ALL[name].rates)} | {ALL[name].limit:,} |\n"
        for name in EVERY
    )
    rows = "".join(
        f"| {row.name} | {'all' if row.channels == EVERY else ', '.join(row.channels)} | {row.answers} | {row.does} |\n"
        for row in ROWS
    )
    return f"""
## Channels of bots

Each row is a test: it runs the real sender against a server that checks messages, token and signature by this documentation.
Mail goes through Apprise: after a 4xx the messages wait, and a wrong login or address stops the bot.

| channel | documentation | looked up |
|---|---|---|
{sources}
| channel | maximum rate | longest message |
|---|---|---|
{rates}
| situation | channel | response | result |
|---|---|---|---|
{rows}"""
