"""News that publishers send: ``POST /hooks/SOURCE``, signed as Standard Webhooks are.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md: the signature is the HMAC-SHA256 of
``id.timestamp.body``; ``webhook-signature`` holds several, as ``v1,BASE64``, while a secret is being changed.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from schemas.errors import ConfigError, ContractError
from schemas.news import MAX_RECORD_BYTES

TOLERANCE_S = 300.0
"""How far a webhook's own time may be from ours."""
BODY_WITHIN_S = 10.0
_SOURCE = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
Accept = Callable[[bytes], Awaitable[None]]
"""Takes one record of ``news``; returns once it is durable. Raises ContractError where it is none."""


def key_of(secret: str) -> bytes:
    """Return the key of a secret such as ``whsec_…``.

    Raises:
        ConfigError: it is none; the text does not repeat it.
    """
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not 24 <= len(key) <= 64:
        raise ConfigError(
            "LISTENER_WEBHOOK_SECRET is no secret of Standard Webhooks: write whsec_ and the base64 of 24 to 64 random bytes, "
            "such as from `echo whsec_$(openssl rand -base64 32)`"
        )
    return key


def signing_headers(key: bytes, name: str, at: datetime, body: bytes) -> dict[str, str]:
    """Return the headers of a webhook, as a sender signs it. ``name``: its ``webhook-id``."""
    stamp = str(int(at.timestamp()))
    signature = f"v1,{_signature(key, name, stamp, body).decode()}"
    return {"webhook-id": name, "webhook-timestamp": stamp, "webhook-signature": signature}


def _signature(key: bytes, name: str, at: str, body: bytes) -> bytes:
    return base64.b64encode(hmac.digest(key, f"{name}.{at}.".encode() + body, hashlib.sha256))


def why_not(key: bytes, headers: Mapping[str, str], body: bytes, now: datetime) -> str | None:
    """Return why a webhook is not to be believed; None: it is."""
    name, at, signed = (headers.get(f"webhook-{one}", "") for one in ("id", "timestamp", "signature"))
    if not (name and at.isascii() and at.isdigit() and len(at) < 16 and signed):
        return "webhook-id, webhook-timestamp (seconds since 1970) and webhook-signature are needed"
    expected = _signature(key, name, at, body)
    given = [one.partition(",")[2].encode() for one in signed.split() if one.startswith("v1,")]
    if not any(hmac.compare_digest(expected, one) for one in given):
        return "no signature of webhook-signature is ours"
    if abs(now.timestamp() - int(at)) > TOLERANCE_S:
        return f"webhook-timestamp is more than {TOLERANCE_S:g} s from the time here"
    return None


def news_of_hook(source: str, name: str, body: bytes, now: datetime) -> bytes:
    """Return the record of ``news`` of a webhook's body: an object as `publish` takes it, or the ``data`` of one.

    ``name``: its ``webhook-id``, which is the id of news that has none of its own. ``received_at`` is ours.

    Raises:
        ContractError: it is no object.
    """
    try:
        given: Any = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise ContractError("the body is not JSON: send an object with text", reason="not_json") from exc
    inner = given.get("data") if isinstance(given, dict) and "text" not in given else given
    if not isinstance(inner, dict):
        raise ContractError(
            "the body is no news: send an object with text, or one such under data", reason="wrong_type"
        )
    fields = {n: v for n, v in inner.items() if n not in ("source", "received_at", "extra")}
    own = fields.pop("id", None)
    fields.setdefault("external_id", str(own) if isinstance(own, str | int) else name[:512])
    fields["published_at"] = fields.get("published_at") or now.isoformat()
    return json.dumps(fields | {"source": source, "received_at": now.isoformat()}).encode()


def application(key: bytes, accept: Accept, listed: Callable[[], Collection[str]]) -> web.Application:
    """Return the service. ``listed``: ids of sources that are listened to, in whose name nobody may send.

    It answers 202 once the news is durable, 401 to what is not signed, 400 to what is no news, 404 to a name that is taken.
    """

    async def take(request: web.Request) -> web.Response:
        source = request.match_info["source"]
        if not _SOURCE.fullmatch(source) or source in listed():
            return web.Response(status=404, text="there is no such hook\n")
        async with asyncio.timeout(BODY_WITHIN_S):
            body = await request.read()
        now = datetime.now(UTC)
        if (why := why_not(key, request.headers, body, now)) is not None:
            return web.Response(status=401, text=f"{why}\n")
        try:
            await accept(news_of_hook(source, request.headers["webhook-id"], body, now))
        except ContractError as exc:
            return web.Response(status=400, text=f"{exc}\n")
        return web.Response(status=202)

    app = web.Application(client_max_size=MAX_RECORD_BYTES)
    app.router.add_post("/hooks/{source}", take)
    return app
