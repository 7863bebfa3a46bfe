"""Messages to channels that people read.

Apprise sends mail. It does not send to the chat channels, because its plugins report neither what a destination asked to wait
nor whether an answer was lost or was a refusal; its Telegram plugin always sends markup (``parse_mode``), and its Discord
plugin leaves mentions on. :mod:`infra.bots.channels` and :mod:`infra.bots.group_robots` say how those take a message.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import httpx

from infra.bots.adapter import Message, MessageAdapter, Result
from infra.bots.channels import CHANNELS, Channel, Reply, Target, inert
from infra.bots.definition import BotDefinition
from infra.bots.group_robots import ROBOTS
from infra.http import guarded_client, quoted, retry_after_s, transport_failure
from infra.redaction import know, redacted
from schemas.errors import ConfigError, TransientError

ALL: Mapping[str, Channel] = {**CHANNELS, **ROBOTS}
MAIL = "mail"
NAMES = (*ALL, MAIL)
"""What a definition may name as its ``channel``."""
TIMEOUT_S = 10.0
AGAIN_S = 5.0
"""How long a channel that cannot be reached is left alone."""
_SHORT = 200
"""Characters of the message that is sent where the whole one was refused: its first line, which is ours."""
_NO_MAILBOX = frozenset({530, 534, 535, 538, 550, 551, 553})
"""SMTP: the login or an address is wrong. Other codes of 500 and more refuse what the mail says."""
_HOURS = re.compile(r"(?:[01]\d|2[0-3]):[0-5]\d-(?:[01]\d|2[0-3]):[0-5]\d")
_WAIT = re.compile(r"too (?:many|fast)|frequen|rate.?limit", re.IGNORECASE)


def message_adapter(bot: BotDefinition, secrets: Sequence[str]) -> MessageAdapter:
    """Return the adapter of a bot's channel. ``secrets``: the parts of its setting.

    Raises:
        ConfigError: there is no such channel, or what it needs is missing or wrong; the text names the field.
    """
    where, setting = f"[{bot.name}]", bot.secret_setting
    if bot.channel not in NAMES:
        raise ConfigError(f"{where}: channel is {bot.channel!r}; write one of {', '.join(NAMES)}")
    if bot.quiet and not _HOURS.fullmatch(bot.quiet):
        raise ConfigError(f"{where}: quiet is {bot.quiet!r}; write hours such as 23:00-07:00, or remove it")
    try:
        ZoneInfo(bot.timezone)
    except (KeyError, ValueError, OSError) as exc:
        raise ConfigError(f"{where}: timezone is {bot.timezone!r}; write a name such as Asia/Shanghai") from exc
    to = bot.to if bot.channel == MAIL or not ALL[bot.channel].needs_to else ""
    for field, value in (("url", bot.url), ("map", bot.map), ("template", bot.template), ("to", to)):
        if value:
            raise ConfigError(f"{where}: {field} does not apply to channel {bot.channel}; remove it")
    if not bot.send:
        raise ConfigError(
            f"{where}: send is empty, so nothing would be sent; add a kind of message such as orders, or remove the bot"
        )
    if not secrets:
        needed = "mailtos://USER:PASSWORD@SERVER?from=FROM&to=TO" if bot.channel == MAIL else ALL[bot.channel].secret
        raise ConfigError(f"{where}: {setting} is not set; set it to {needed}")
    know(*secrets, ",".join(secrets))
    if bot.channel == MAIL:
        return _MailAdapter(",".join(secrets), setting, where)
    kind = ALL[bot.channel]
    if kind.needs_to and not bot.to:
        raise ConfigError(f"{where}: to is missing; set it to the chat's id, such as -1001234567890")
    address, *second = secrets
    if bot.channel == "telegram" and re.fullmatch(r"\d+:[\w-]+", address):
        address = f"https://api.telegram.org/bot{address}"
    if not re.fullmatch(r"https?://[^/\s]+/\S+", address) or len(second) > 1:
        raise ConfigError(f"{where}: {setting} does not hold {kind.secret}")
    know(address)
    return _ChatAdapter(bot.channel, kind, Target(address.rstrip("/"), "".join(second), bot.to), setting)


async def _whole_or_short(message: Message, post: Callable[[str], Awaitable[Result]]) -> Result:
    """Send a message; if it is refused, its first line alone, which is ours."""
    result = await post(message.text)
    if result.outcome != "refused":
        return result
    shorter = await post(message.text.partition("\n")[0][:_SHORT])
    if shorter.outcome != "delivered":
        return shorter
    reason = f"the whole message was refused ({result.reason}), so its first line was sent"
    return Result(outcome="delivered", reason=reason, remote_id=shorter.remote_id)


class _ChatAdapter:
    """A channel that takes JSON over HTTP."""

    def __init__(self, name: str, channel: Channel, target: Target, setting: str) -> None:
        self.name, self.rates = name, channel.rates
        self._channel, self._target, self._setting = channel, target, setting
        self._http = guarded_client(target.secret, timeout_s=TIMEOUT_S, max_bytes=1024 * 1024)

    async def check(self) -> None:
        """Ask the channel whether it knows us. Slack, ntfy and the group robots have no question without effect.

        Raises:
            ConfigError: it does not.
            TransientError: it does not respond.
        """
        if self._channel.question is None:
            return
        try:
            async with asyncio.timeout(TIMEOUT_S):
                response = await self._http.get(self._channel.question(self._target))
        except (TimeoutError, httpx.HTTPError) as exc:
            raise transport_failure(exc, self.name, TIMEOUT_S) from exc
        if response.status_code >= 500 or response.status_code == 429:
            raise TransientError(f"{self.name} does not respond as expected ({response.status_code}); try again later")
        if response.status_code != 200:
            reply = self._channel.read(_body(response)) or Reply()
            raise ConfigError(self._refusal(response.status_code, reply.words))

    async def send(self, message: Message) -> Result:
        """Send one message; if it is refused, its first line alone. Never raises for what the channel does."""
        return await _whole_or_short(message, lambda text: self._post(self._rendered(text, message.link), message.link))

    def _rendered(self, text: str, link: str | None) -> str:
        tail, limit = f"\n{link}" if link else "", self._channel.limit
        while True:
            whole = self._channel.escape(inert(text)) + tail
            if (size := self._channel.size(whole)) <= limit:
                return whole
            text = text[: min(len(text) * limit // size, len(text) - 2)].rstrip() + "…"

    async def _post(self, text: str, link: str | None) -> Result:
        request = self._channel.request(self._target, text, link, datetime.now(UTC))
        try:
            async with asyncio.timeout(TIMEOUT_S):
                response = await self._http.post(request.url, json=request.body, headers=request.headers)
        except (httpx.ConnectError, httpx.ConnectTimeout) as exc:
            return Result(outcome="throttled", reason=f"no connection to {self.name} ({quoted(exc)})", wait_s=AGAIN_S)
        except Exception as exc:  # lost: it may have been sent
            words = redacted(quoted(f"{type(exc).__name__}: {exc}".rstrip(": ")))
            return Result(outcome="unknown", reason=f"the response of {self.name} was lost ({words})")
        return self._judged(response)

    def _judged(self, response: httpx.Response) -> Result:
        status, channel = response.status_code, self._channel
        reply = channel.read(_body(response))
        words = redacted(quoted(reply.words if reply else response.text, 200))
        reason = f"{self.name} returned {status} ({words})" if words else f"{self.name} returned {status}"
        if (status == 204 and reply is None) or (status < 300 and reply is not None and reply.done):
            return Result(outcome="delivered", remote_id=reply.remote_id if reply else None)
        asked = retry_after_s(response.headers, datetime.now(UTC))
        code = status if reply is None or not reply.code else reply.code
        if {status, code} & channel.throttled or (status == 503 and asked) or (reply and _WAIT.search(reply.words)):
            wait = reply.wait_s if reply and reply.wait_s is not None else asked
            return Result(outcome="throttled", reason=reason, wait_s=channel.silence_s if wait is None else wait)
        if reply is None and 400 <= status < 500 and status not in {408, 413}:
            # A page of a proxy or a guard on the way, which may let the next request through.
            return Result(outcome="throttled", reason=reason, wait_s=channel.silence_s)
        if {status, code} & channel.stops:
            return Result(outcome="disabled", reason=self._refusal(status, words))
        if status >= 500 or status == 408 or (status < 300 and reply is None):
            return Result(outcome="unknown", reason=reason)
        return Result(outcome="refused", reason=reason)

    def _refusal(self, status: int, words: str) -> str:
        more = " and to" if self._channel.needs_to else ""
        return redacted(f"{self.name} accepts no messages ({status}: {quoted(words, 200)}); correct {self._setting}{more}, "
                        "or the channel's permissions, and start the bot again")  # fmt: skip

    async def close(self) -> None:
        await self._http.aclose()


def _body(response: httpx.Response) -> Any:
    try:
        return json.loads(response.content)
    except (ValueError, RecursionError):
        return response.text.strip()


class _MailAdapter:
    """Mail as plain text, by Apprise."""

    name = MAIL
    rates = ((1, 1.0), (20, 60.0))

    def __init__(self, address: str, setting: str, where: str) -> None:
        import apprise  # 0.4 s, for mail alone
        from apprise.plugins.email.base import NotifyEmail

        made = apprise.Apprise.instantiate(address) if address.startswith(("mailto:", "mailtos:")) else None
        if not isinstance(made, NotifyEmail):
            raise ConfigError(
                f"{where}: {setting} is not a mail address of Apprise: set it to mailtos://USER:PASSWORD@SERVER?from=FROM&to=TO "
                "(https://appriseit.com/services/email/)"
            )
        know(made.password or "")
        made.request_rate_per_sec = 0  # else it sleeps; our callers keep to ``rates``
        self._setting = setting
        self._apprise, self._text = apprise.Apprise(), apprise.NotifyFormat.TEXT
        self._apprise.add(made)
        # Only its debug lines say why a mail was not sent. They go to the results of a call, and to no log of ours.
        logger = logging.getLogger("apprise")
        logger.setLevel(logging.DEBUG)
        logger.propagate = False

    async def check(self) -> None:
        """Mail has no question without effect."""

    async def send(self, message: Message) -> Result:
        """Send one mail, whose subject is the first line; if it is refused, that line alone."""
        return await _whole_or_short(message, lambda text: self._mail(text, message.link))

    async def _mail(self, text: str, link: str | None) -> Result:
        plain = inert(text)
        with await self._apprise.async_notify(
            body=f"{plain}\n{link}" if link else plain, title=plain.partition("\n")[0][:_SHORT],
            body_format=self._text, timeout=3 * TIMEOUT_S, log_level=logging.DEBUG,
        ) as sent:  # fmt: skip
            [service] = sent.results
            words = [entry.message for entry in service.logs() if "xception" in entry.message]
            if service:
                return Result(outcome="delivered")
        reason = redacted(f"mail was not sent ({quoted('; '.join(words)) or 'no reason given'})")
        code = int(match[1]) if (match := re.search(r"\((\d{3}), b", reason)) else 0
        if re.search(r"Errno (?:111|101|113|-2|-3)\b", reason) or 400 <= code < 500:
            return Result(outcome="throttled", reason=reason, wait_s=60.0)
        if code in _NO_MAILBOX:
            return Result(outcome="disabled", reason=f"{reason}; correct {self._setting}, and start the bot again")
        return Result(outcome="refused" if code else "unknown", reason=reason)

    async def close(self) -> None: ...
