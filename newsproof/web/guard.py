"""What stands before every request: the Host header, rates, the token, the size of the body; and the headers of every answer."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from infra.settings import Settings
from newsproof.web.answers import refusal
from newsproof.web.rates import Rates
from newsproof.web.server import LOOPBACK

MAX_BODY_BYTES = 256 * 1024
BODY_WITHIN_S = 30.0
COOKIE = "newsproof_session"
COOKIE_S = 30 * 24 * 3600
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_OPEN_TO_ALL = ("/static/", "/login", "/healthz", "/readyz", "/favicon.ico")


class Tokens:
    """Whether a request brings the token, as a bearer or as the cookie of a login. Without a token everyone may."""

    def __init__(self, settings: Settings) -> None:
        self._token = None if settings.web_token is None else settings.web_token.get_secret_value().encode()

    @property
    def asked(self) -> bool:
        """Whether there is a token."""
        return self._token is not None

    def fits(self, token: str) -> bool:
        """Whether this is the token."""
        return self._token is not None and hmac.compare_digest(token.encode(), self._token)

    @property
    def session(self) -> str:
        """The value of the cookie: made of the token, and not to be turned back into it."""
        return hmac.new(self._token or b"", b"newsproof web session", hashlib.sha256).hexdigest()

    def admits(self, headers: Headers) -> bool:
        """Whether these headers carry it."""
        if self._token is None:
            return True
        kind, _, value = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self.fits(value.strip()):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and hmac.compare_digest(cookie.value.encode(), self.session.encode())

    def cookie(self, *, secure: bool) -> str:
        """Return the header that sets it."""
        more = "; Secure" if secure else ""
        return f"{COOKIE}={self.session}; Path=/; HttpOnly; SameSite=Strict; Max-Age={COOKIE_S}{more}"


class Guard:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, settings: Settings, tokens: Tokens) -> None:
        self._app, self._tokens = app, tokens
        self._any_host = settings.web_host not in LOOPBACK
        self._rates = Rates(settings.web_requests_per_minute)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                out = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    if name not in out:
                        out[name] = value
            await send(message)

        said = self._refused(scope, headers)
        if said is None and scope["method"] in ("POST", "PUT", "PATCH", "DELETE"):
            body, said = await _body_of(headers, receive)
            receive = _replayed(body, receive)
        await (said or self._app)(scope, receive, with_headers)

    def _refused(self, scope: Scope, headers: Headers) -> Any:
        if not self._any_host and (name := _host(headers.get("host", ""))) not in LOOPBACK:
            words = f"this server does not answer to the name {name[:100]!r}"
            return refusal(421, words, "open it as http://127.0.0.1 or http://localhost, or set WEB_HOST and WEB_TOKEN")
        path = scope["path"]
        if path.startswith("/api/") or scope["method"] == "POST" or self._offers_token(scope, headers):
            clock = asyncio.get_running_loop().time()
            if waits := self._rates.take(str((scope.get("client") or ("?",))[0]), clock):
                after = {"retry-after": str(int(waits) + 1)}
                return refusal(429, "too many requests from this address", "ask again after Retry-After seconds", after)
        if scope["method"] not in ("GET", "HEAD", "OPTIONS") and not _same_origin(headers):
            return refusal(403, "the request comes from a page of another site", "use the page that this server gives")
        if self._tokens.asked and not path.startswith(_OPEN_TO_ALL) and not self._tokens.admits(headers):
            return self._unknown(scope)
        return None

    def _offers_token(self, scope: Scope, headers: Headers) -> bool:
        """Whether this request could be one of many that try tokens, as a login could."""
        return self._tokens.asked and (b"token" in scope["query_string"] or "authorization" in headers)

    def _unknown(self, scope: Scope) -> Any:
        from starlette.responses import RedirectResponse

        if scope["path"].startswith("/api/") or scope["path"] == "/openapi.json" or scope["method"] != "GET":
            do = "send `Authorization: Bearer WEB_TOKEN`, or log in at /login"
            return refusal(401, "this server asks for its token", do, {"www-authenticate": "Bearer"})
        query = parse_qsl(scope["query_string"].decode("latin-1"))
        rest = [(name, value) for name, value in query if name != "token"]
        # One slash: a browser takes two for the name of another server.
        here = "/" + quote(scope["path"].lstrip("/\\")) + (f"?{urlencode(rest)}" if rest else "")
        if any(name == "token" and self._tokens.fits(value) for name, value in query):
            secure = scope.get("scheme") == "https"
            return RedirectResponse(
                here, 303, {"set-cookie": self._tokens.cookie(secure=secure), "cache-control": "no-store"}
            )
        return RedirectResponse(f"/login?next={quote(here, safe='')}", 303, {"cache-control": "no-store"})


def _host(header: str) -> str:
    try:
        return (urlsplit(f"//{header}").hostname or "") if header.isascii() else header
    except ValueError:  # such as an open bracket
        return header


def _same_origin(headers: Headers) -> bool:
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    try:
        return origin is None or urlsplit(origin).netloc.lower() == headers.get("host", "").lower()
    except ValueError:
        return False


async def _body_of(headers: Headers, receive: Receive) -> tuple[bytes, Any]:
    large = refusal(413, f"the body is larger than {MAX_BODY_BYTES} bytes", "shorten it", {"connection": "close"})
    said = headers.get("content-length", "0")
    if not (said.isascii() and said.isdigit() and len(said) < 20) or int(said) > MAX_BODY_BYTES:
        return b"", large
    body = b""
    try:
        async with asyncio.timeout(BODY_WITHIN_S):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    break
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > MAX_BODY_BYTES:
                    return b"", large
    except TimeoutError:
        return b"", refusal(408, "the body did not come in time", "send it again", {"connection": "close"})
    return body, None


def _replayed(body: bytes, receive: Receive) -> Receive:
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return left.pop() if left else await receive()

    return again
