"""Channels that people read: how each takes a message, what its answers mean, and how many messages it takes.

News is hostile input. :func:`inert` makes every text inactive for all channels alike: no mention, no link, no command, no
tag. A channel's own ``escape`` then removes the markup that only this channel has. The only link is ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

import msgspec

from schemas.printable import printable

ZERO_WIDTH = "\u200b"
"""Invisible, and no part of a name or an address, so what it interrupts reads the same and does nothing."""
_ACTIVE = re.compile(r"@|<(?=\S)|\](?=\()|:(?=//)|(?<=\w)\.(?=[^\W\d_]{2})|(?<!\S)/(?=\w)")


def inert(text: str) -> str:
    """Return the text so that no channel makes a mention, a link, a tag or a bot command of any part of it."""
    return _ACTIVE.sub(lambda match: match[0] + ZERO_WIDTH, printable(text))


class Target(msgspec.Struct, frozen=True):
    """Where a channel's messages go. ``secret`` and ``second``: the two parts of ``BOT_SECRET_…``; docs/bots.md says which."""

    secret: str
    second: str = ""
    to: str = ""


class Request(msgspec.Struct, frozen=True):
    url: str
    body: Any
    headers: dict[str, str] = {}


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A channel's answer. ``code``: its own error code, 0 if it has none. ``wait_s``: its wish."""

    done: bool = False
    code: int = 0
    words: str = ""
    remote_id: str | None = None
    wait_s: float | None = None


class Channel(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of channel.

    ``rates``: (messages, seconds) that it takes at most. ``limit``: the longest message, as ``size`` measures it.
    ``read`` returns None for an answer that is not the channel's. ``throttled`` and ``stops`` are its codes for "wait" and
    for "nothing will be accepted until somebody corrects the settings". ``silence_s``: how long it refuses everything after
    too many messages, if it does not say. ``question``: a request without effect that tells whether the settings are right.
    """

    secret: str
    rates: tuple[tuple[int, float], ...]
    limit: int
    request: Callable[[Target, str, str | None, datetime], Request]
    read: Callable[[Any], Reply | None]
    size: Callable[[str], int] = len
    escape: Callable[[str], str] = str
    throttled: frozenset[int] = frozenset({429})
    stops: frozenset[int] = frozenset({401, 403, 404, 410})
    silence_s: float = 60.0
    needs_to: bool = False
    question: Callable[[Target], str] | None = None


def utf8(text: str) -> int:
    return len(text.encode())


def _utf16(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


# Telegram: https://core.telegram.org/bots/api#sendmessage and #making-requests
def _telegram(target: Target, text: str, link: str | None, at: datetime) -> Request:
    # Without parse_mode: the text is no markup, whatever it holds.
    body = {"chat_id": target.to, "text": text, "link_preview_options": {"is_disabled": True}}
    return Request(f"{target.secret}/sendMessage", body)


def _telegram_reply(body: Any) -> Reply | None:
    match body:
        case {"ok": True, "result": result}:
            sent = result.get("message_id") if isinstance(result, dict) else None
            return Reply(done=True, remote_id=None if sent is None else str(sent))
        case {"ok": False, "description": str(words)}:
            # Which chat it is, is a setting: every message would be refused.
            lost = "chat not found" in words or "upgraded to a supergroup" in words
            return Reply(
                code=404 if lost else body.get("error_code", 0),
                words=words,
                wait_s=_number(body.get("parameters"), "retry_after"),
            )
    return None


# Discord: https://docs.discord.com/developers/resources/webhook#execute-webhook
_DISCORD_MARKUP = re.compile(r"[\\*_~`|>#\[\]()<:@-]")
_SUPPRESS_EMBEDS = 1 << 2


def _discord(target: Target, text: str, link: str | None, at: datetime) -> Request:
    body = {"content": text, "allowed_mentions": {"parse": []}, "flags": _SUPPRESS_EMBEDS}
    return Request(f"{target.secret}?wait=true", body)


def _discord_reply(body: Any) -> Reply | None:
    match body:
        case {"id": str(sent)}:
            return Reply(done=True, remote_id=sent)
        case {"message": str(words)}:
            return Reply(code=body.get("code", 0), words=words, wait_s=_number(body, "retry_after"))
    return None


# Slack: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
def _slack(target: Target, text: str, link: str | None, at: datetime) -> Request:
    off = {"mrkdwn": False, "link_names": False, "unfurl_links": False, "unfurl_media": False}
    return Request(target.secret, {"text": text, **off})


def _slack_escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _slack_reply(body: Any) -> Reply | None:
    if body == "ok":
        return Reply(done=True)
    if not isinstance(body, str) or not re.fullmatch(r"[a-z_]{3,60}", body):
        return None
    return Reply(words=body)


# ntfy: https://docs.ntfy.sh/publish/#publish-as-json
def _ntfy(target: Target, text: str, link: str | None, at: datetime) -> Request:
    address, _, topic = target.secret.rstrip("/").rpartition("/")
    body = {"topic": topic, "message": text, **({"click": link} if link else {})}
    return Request(address + "/", body, {"authorization": f"Bearer {target.second}"} if target.second else {})


def _ntfy_reply(body: Any) -> Reply | None:
    match body:
        case {"id": str(sent), "event": "message"}:
            return Reply(done=True, remote_id=sent)
        case {"code": int(code), "error": str(words)}:
            return Reply(code=code, words=words)
    return None


def _number(body: Any, name: str) -> float | None:
    value = body.get(name) if isinstance(body, dict) else None
    return float(value) if isinstance(value, int | float) and 0 <= value < 86_400 else None


_ADDRESS = "the webhook's address, as {} shows it"
CHANNELS: Mapping[str, Channel] = {
    "telegram": Channel(
        secret="the bot's token, as @BotFather shows it (with a server of your own: https://SERVER/botTOKEN)",
        rates=((1, 1.0), (20, 60.0)),
        limit=4096,
        size=_utf16,
        request=_telegram,
        read=_telegram_reply,
        needs_to=True,
        question=lambda target: f"{target.secret}/getChat?chat_id={quote(target.to)}",
    ),
    "discord": Channel(
        secret=_ADDRESS.format("the channel's settings"),
        rates=((30, 60.0),),
        limit=2000,
        escape=lambda text: _DISCORD_MARKUP.sub(r"\\\g<0>", text),
        request=_discord,
        read=_discord_reply,
        stops=frozenset({401, 403, 404, 10015, 50027}),
        question=lambda target: target.secret,
    ),
    "slack": Channel(
        secret=_ADDRESS.format("the app's page"),
        rates=((1, 1.0),),
        limit=4000,
        escape=_slack_escaped,
        request=_slack,
        read=_slack_reply,
    ),
    "ntfy": Channel(
        secret="the topic's address, such as https://ntfy.sh/TOPIC, and a comma and an access token if it needs one",
        # A visitor has 60 requests, and gets another one every 5 s.
        rates=((12, 60.0),),
        limit=4096,
        size=utf8,
        request=_ntfy,
        read=_ntfy_reply,
        stops=frozenset({401, 403, 404, 40101, 40301}),
    ),
}  # fmt: skip
