"""Guard of every request: Host header, rate limits, token, body size; and the security headers of every response."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from infra.settings import Settings
from newsproof.web.limits import Rates
from newsproof.web.responses import refusal
from newsproof.web.server import LOOPBACK
from newsproof.web.tokens import Tokens

MAX_BODY_BYTES = 256 * 1024
BODY_WITHIN_S = 30.0
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
MCP_PATH = "/mcp"
"""Address of the Model Context Protocol. It takes no session: a page in a browser is no agent."""
_OPEN_TO_ALL = ("/static/", "/login", "/healthz", "/readyz", "/favicon.ico")


class Guard:
    """ASGI middleware around the application."""

    def __init__(self, app: ASGIApp, settings: Settings, tokens: Tokens) -> None:
        self._app, self._tokens = app, tokens
        # Behind a proxy, the name is the proxy's. A foreign name that DNS rebinding points here has no session.
        self._any_host = settings.web_host not in LOOPBACK or settings.web_trusted_proxy is not None
        self._rates = Rates(settings.web_requests_per_minute)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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

        denial = self._refused(scope, headers)
        if denial is None and scope["method"] in ("POST", "PUT", "PATCH", "DELETE"):
            body, denial = await _body_of(headers, receive)
            receive = _replayed(body, receive)
        await (denial or self._app)(scope, receive, with_headers)

    def _refused(self, scope: Scope, headers: Headers) -> Any:
        if not self._any_host and (name := _host(headers.get("host", ""))) not in LOOPBACK:
            words = f"this server does not serve the host name {name[:100]!r}"
            return refusal(421, words, "open http://127.0.0.1 or http://localhost, or set WEB_HOST and WEB_TOKEN")
        if scope["method"] not in ("GET", "HEAD", "OPTIONS") and not _same_origin(headers):
            return refusal(403, "the request comes from another site", "use the page that this server serves")
        if scope["path"].startswith(_OPEN_TO_ALL):
            return None
        program = scope["path"].startswith("/api/") or scope["path"] in (MCP_PATH, "/openapi.json")
        page = not program and scope["method"] == "GET"
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True) if page else []
        offered = [value for name, value in query if name == "token"]
        if offered and any(map(self._tokens.fits, offered)):
            return self._without_token(scope, query)
        agent = scope["path"] == MCP_PATH
        if not (self._tokens.bears(headers) if agent else self._tokens.admits(headers, port_of(scope))):
            tried = offered or not page or self._tokens.offered(headers, port_of(scope))
            return (too_often(self._tokens, scope) if tried else None) or self._unknown(scope, query, page=page)
        if not page and (waits := self._rates.take(client_of(scope), asyncio.get_running_loop().time())):
            return _refused_for(waits, "too many requests from this address")
        return self._without_token(scope, query) if offered else None

    def _unknown(self, scope: Scope, query: list[tuple[str, str]], *, page: bool) -> Any:
        if not page:
            do = "send `Authorization: Bearer TOKEN` (WEB_TOKEN, or the content of web-token in the data directory)"
            do += "" if scope["path"] == MCP_PATH else ", or log in at /login"
            return refusal(401, "this server needs its token", do, {"www-authenticate": "Bearer"})
        onward = f"/login?next={quote(_here(scope, query), safe='')}"
        return RedirectResponse(onward, 303, {"cache-control": "no-store"})

    def _without_token(self, scope: Scope, query: list[tuple[str, str]]) -> Any:
        """Redirect to the address without the token, so that no address bar keeps it. A valid token opens a session."""
        headers = {"cache-control": "no-store"}
        if any(name == "token" and self._tokens.fits(value) for name, value in query):
            headers["set-cookie"] = self._tokens.cookie(port_of(scope), secure=scope.get("scheme") == "https")
        return RedirectResponse(_here(scope, query), 303, headers)


def too_often(tokens: Tokens, scope: Scope) -> Any:
    """Count a request without a valid token; return a refusal if its address sent too many."""
    waits = tokens.failed(client_of(scope), asyncio.get_running_loop().time())
    return _refused_for(waits, "too many requests without the right token from this address") if waits else None


def client_of(scope: Scope) -> str:
    """Return the client's address, by which rates and event streams are counted."""
    return str((scope.get("client") or ("?",))[0])


def port_of(scope: Scope) -> int:
    """Return the port that received the request; 0 if it is unknown."""
    return int((scope.get("server") or ("", 0))[1] or 0)


def _refused_for(waits: float, why: str) -> Any:
    return refusal(429, why, "retry after the seconds in Retry-After", {"retry-after": str(int(waits) + 1)})


def _here(scope: Scope, query: list[tuple[str, str]]) -> str:
    rest = [(name, value) for name, value in query if name != "token"]
    # One slash: a browser takes two for the name of another server.
    return "/" + quote(scope["path"].lstrip("/\\")) + (f"?{urlencode(rest)}" if rest else "")


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
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit() and len(length) < 20) or int(length) > MAX_BODY_BYTES:
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
        return b"", refusal(408, "the body did not arrive in time", "send the request again", {"connection": "close"})
    return body, None


def _replayed(body: bytes, receive: Receive) -> Receive:
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return left.pop() if left else await receive()

    return again
