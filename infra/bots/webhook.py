"""Orders as webhooks, signed as Standard Webhooks, or as JSON in the receiver's own form (a template).

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md. The receiver has no
positions that could be read, so an entry whose answer is lost stays unknown.

A template is a table of the definition, sent as JSON. ``{{field}}`` in its strings stands for a field of
:data:`FIELDS`; a string that is one field alone keeps its type. ``url`` may hold ``{{secret}}``, for receivers that
know a sender by the address.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import httpx
from standardwebhooks.webhooks import Webhook

from infra.bots.adapter import Order, RemotePosition, Result
from infra.bots.definition import BotDefinition
from infra.http import BoundedTransport, checked_address, quoted, retry_after_s, tls_context
from infra.pages.guard import Guard
from infra.pages.network import GuardedTransport
from infra.redaction import know
from schemas.errors import ConfigError, NewsproofError, PermanentError, TransientError

TIMEOUT_S = 10.0
CONNECT_S = 3.0
MAX_BODY_BYTES = 20_000
"""Recommended maximum of Standard Webhooks."""
THROTTLED_S = 5.0
"""Pause after a 429 that does not say how long."""
_MAX_ANSWER_BYTES = 256 * 1024
_FIELD = re.compile(r"\{\{\s*(\w+)\s*\}\}")


def webhook_id(order: Order) -> str:
    """Return the id by which a receiver recognises a repetition. An exit by expiry has no revision of its own."""
    return f"np_{order.signal.signal_id}_{order.signal.revision}" + ("_exit" if order.intent == "exit" else "")


FIELDS: Mapping[str, Callable[[Order], str | int | float | None]] = {
    "id": webhook_id,
    "bot": lambda order: order.bot,
    "intent": lambda order: order.intent,
    "side": lambda order: order.side,
    "instrument": lambda order: order.instrument,
    "reference": lambda order: order.reference,
    "reason": lambda order: order.reason[:500],
    "asset": lambda order: order.signal.asset,
    "signal_id": lambda order: order.signal.signal_id,
    "revision": lambda order: order.signal.revision,
    "verdict": lambda order: order.signal.verdict,
    "stage": lambda order: order.signal.stage,
    "confidence": lambda order: order.signal.confidence,
    "summary": lambda order: order.signal.summary[:1000],
    "published_at": lambda order: _time(order.signal.published_at),
    "valid_until": lambda order: _time(order.signal.valid_until),
    "timestamp": lambda order: _time(order.at),
    "provider_mode": lambda order: order.signal.provider_mode,
}
"""The fields of the body, and of templates. Templates have ``action`` and ``secret``, too.

``action``: enter_long, exit_long, enter_short or exit_short, or the definition's word for it (``words``).
"""
ACTIONS = ("enter_long", "exit_long", "enter_short", "exit_short")


def _time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class WebhookAdapter:
    """One receiver. ``secrets``: one, or during a rotation two, which both sign."""

    def __init__(self, bot: BotDefinition, secrets: tuple[str, ...], *, private: bool) -> None:
        """``private``: the receiver may have a loopback or private address.

        Raises:
            ConfigError: the definition or the secret is wrong; the text names the field or the setting.
        """
        know(*secrets)
        self._bot, self._secrets = bot, secrets
        in_texts = _check_template(bot)
        if in_texts and not secrets:
            raise ConfigError(f"[{bot.name}] uses {{{{secret}}}}, but {bot.secret_setting} is not set: set it")
        self._keys = () if in_texts else _keys_of(bot, secrets)
        self._url = bot.url.replace("{{secret}}", secrets[0] if secrets else "")
        checked_address(bot.url.replace("{{secret}}", "secret"), f"[{bot.name}] url")
        limits = httpx.Limits(max_connections=64, max_keepalive_connections=0)
        inner: httpx.AsyncBaseTransport = GuardedTransport(Guard(ports=None))
        if private:
            inner = httpx.AsyncHTTPTransport(verify=tls_context(), limits=limits)
        elif not bot.url.startswith("https://"):
            raise ConfigError(
                f"[{bot.name}] url is not https, so anybody on the way could read and change orders: write https://…, or, "
                "for a receiver in your own network, set BOTS_PRIVATE_ADDRESSES=true"
            )
        self._http = httpx.AsyncClient(
            transport=BoundedTransport(inner, _MAX_ANSWER_BYTES),
            timeout=httpx.Timeout(TIMEOUT_S, connect=CONNECT_S),
            follow_redirects=False,
            trust_env=False,
        )

    async def check(self) -> None:
        """Nothing: a webhook has no request that changes nothing."""

    async def positions(self) -> Mapping[str, RemotePosition] | None:
        """Return None: a receiver of webhooks cannot be read."""
        return None

    async def close(self) -> None:
        await self._http.aclose()

    async def perform(self, order: Order) -> Result:
        """Send one webhook. Only a connection that was not opened, and a 429, are surely not done."""
        body = json.dumps(self._body(order), ensure_ascii=False).encode()
        if len(body) > MAX_BODY_BYTES:
            return Result(outcome="refused", reason=f"the body has {len(body)} bytes, more than {MAX_BODY_BYTES}")
        try:
            async with asyncio.timeout(TIMEOUT_S):
                response = await self._http.post(self._url, content=body, headers=self._headers(order, body))
        except (TimeoutError, httpx.HTTPError, NewsproofError) as exc:
            return _without_answer(exc)
        return self._read(response)

    def _body(self, order: Order) -> Any:
        values = {name: read(order) for name, read in FIELDS.items()}
        if self._bot.template is None:
            return {"type": f"newsproof.position.{order.intent}", "timestamp": values["timestamp"], "data": values}
        action = f"{order.intent}_{order.side}"
        values["action"] = self._bot.words.get(action, action)
        values["secret"] = self._secrets[0] if self._secrets else ""
        return _filled(self._bot.template, values)

    def _headers(self, order: Order, body: bytes) -> dict[str, str]:
        headers = {"content-type": "application/json", "user-agent": "newsproof", "accept-encoding": "gzip"}
        if not self._keys:
            return headers
        name = webhook_id(order)
        # The library drops the zone of a time, so it gets UTC.
        signatures = [key.sign(name, order.at.astimezone(UTC), body.decode()) for key in self._keys]
        return headers | {
            "webhook-id": name,
            "webhook-timestamp": str(int(order.at.timestamp())),
            "webhook-signature": " ".join(signatures),
        }

    def _read(self, response: httpx.Response) -> Result:
        status, words = response.status_code, f"{response.status_code}: {quoted(response.text, 200)}"
        if status == 410:
            return Result(outcome="disabled", reason=words)
        if status == 429:
            wait_s = retry_after_s(response.headers, datetime.now(UTC))
            return Result(outcome="throttled", reason=words, wait_s=wait_s or THROTTLED_S)
        if status == 408 or status >= 500:
            return Result(outcome="unknown", reason=words)
        if status >= 400:
            return Result(outcome="refused", reason=words)
        if status >= 300:
            return Result(
                outcome="refused", reason=f"{status}: redirects are not followed; write the final address into url"
            )
        if not self._bot.refused_if:
            return Result(outcome="delivered", reason=words)
        try:
            body = json.loads(response.content)
        except (ValueError, RecursionError):
            return Result(
                outcome="unknown", reason=f"{words} is not JSON, so it is unknown whether the order was refused"
            )
        for path, value in self._bot.refused_if.items():
            actual = _at(body, path)
            if type(actual) is type(value) and actual == value:
                return Result(outcome="refused", reason=words)
        return Result(outcome="delivered", reason=words)


def _without_answer(exc: Exception) -> Result:
    words = quoted(f"{type(exc).__name__}: {exc}".rstrip(": "))
    if isinstance(exc, PermanentError):  # the guard's
        return Result(outcome="refused", reason=f"{words}; if it is your own network, set BOTS_PRIVATE_ADDRESSES=true")
    sent_nothing = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
    causes = {type(cause).__name__ for cause in (exc, exc.__cause__)}
    if isinstance(exc, sent_nothing) or causes & {"ConnectError", "ConnectTimeout"}:
        return Result(outcome="throttled", reason=words)
    if isinstance(exc, TransientError) and exc.kind == "network" and "resolved" in str(exc):
        return Result(outcome="throttled", reason=words)
    return Result(outcome="unknown", reason=words)


def _keys_of(bot: BotDefinition, secrets: tuple[str, ...]) -> tuple[Webhook, ...]:
    if not secrets and bot.template is None:
        raise ConfigError(
            f"[{bot.name}] signs its webhooks, but {bot.secret_setting} is not set: set it to the receiver's secret, or "
            "to a new one from `echo whsec_$(openssl rand -base64 32)`"
        )
    wrong = ConfigError(
        f"{bot.secret_setting} does not hold one secret, or two separated by a comma: a secret is whsec_ and the base64 of "
        "24 to 64 bytes"
    )
    if len(secrets) > 2 or not all(secret.startswith("whsec_") for secret in secrets):
        raise wrong
    try:  # the library takes anything for base64
        keys = [base64.b64decode(secret.removeprefix("whsec_"), validate=True) for secret in secrets]
    except ValueError:
        raise wrong from None
    if not all(24 <= len(key) <= 64 for key in keys):
        raise wrong
    return tuple(Webhook(key) for key in keys)


def _check_template(bot: BotDefinition) -> bool:
    """Return whether the definition's texts have the secret in them.

    Raises:
        ConfigError: a template names an unknown field, or something is given that belongs to a template.
    """
    if bot.template is None and (bot.refused_if or bot.words):
        raise ConfigError(
            f"[{bot.name}] has refused_if or words, which need a template: add a template, or remove them"
        )
    if unknown := sorted(set(bot.words).difference(ACTIONS)):
        raise ConfigError(f"[{bot.name}] words: {unknown[0]!r} is not an action; write one of {', '.join(ACTIONS)}")
    known = {*FIELDS, "action", "secret"}
    used = set(_FIELD.findall(json.dumps(bot.template, default=str)))
    if unknown := sorted(used.difference(known)):
        raise ConfigError(
            f"[{bot.name}] template: {{{{{unknown[0]}}}}} is not a field; write one of {', '.join(sorted(known))}"
        )
    if unknown := sorted(set(_FIELD.findall(bot.url)).difference({"secret"})):
        raise ConfigError(f"[{bot.name}] url: only {{{{secret}}}} may be used in it, not {{{{{unknown[0]}}}}}")
    if bot.template is not None:
        try:
            json.dumps(bot.template)
        except TypeError as exc:
            raise ConfigError(
                f"[{bot.name}] template: {exc}; write text, numbers, true, false, lists and tables"
            ) from exc
    return "secret" in used or "{{secret}}" in bot.url


def _filled(template: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(template, dict):
        return {name: _filled(part, values) for name, part in template.items()}
    if isinstance(template, list):
        return [_filled(part, values) for part in template]
    if not isinstance(template, str):
        return template
    if (whole := _FIELD.fullmatch(template)) is not None:
        return values[whole[1]]
    # One pass: a value that contains braces is not a template.
    return _FIELD.sub(lambda match: str(values[match[1]]), template)


def _at(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value
