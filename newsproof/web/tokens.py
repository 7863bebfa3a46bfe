"""Authentication of the web service: the token, from the settings or the data directory, and sessions made from it."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Iterable
from urllib.parse import urlencode

from starlette.datastructures import Headers

from infra.owner_only import made_secret
from infra.redaction import know
from infra.settings import Settings
from newsproof.web.limits import Rates
from newsproof.web.server import LOOPBACK
from schemas.errors import ConfigError

FILE = "web-token"
"""File in the data directory. If WEB_TOKEN is unset, anyone who can read this file can use the page."""
SESSION_S = 7 * 24 * 3600
COOKIE = "newsproof_session"


def token_of(settings: Settings) -> str:
    """Return the token: WEB_TOKEN, else, on loopback only, the stored one, which the first start creates.

    Log redaction covers it from here on.

    Raises:
        ConfigError: the service is open to the network without WEB_TOKEN; or the stored token cannot be read or
            written, or may belong to another user (:func:`infra.owner_only.made_secret`).
    """
    if settings.web_token is not None:
        return settings.web_token.get_secret_value()
    if settings.web_host not in LOOPBACK:
        raise ConfigError(
            f"WEB_HOST={settings.web_host} opens the web service to the network, but WEB_TOKEN is not set: set it to a "
            "secret of at least 16 characters (such as `openssl rand -hex 24` prints), or leave WEB_HOST at 127.0.0.1"
        )
    file = settings.newsproof_data_dir / FILE
    try:
        token = made_secret(file)
    except (OSError, ValueError) as exc:
        raise ConfigError(
            f"the page's token cannot be saved in {file} ({exc}): make it readable and writable, or set WEB_TOKEN"
        ) from exc
    know(token)
    return token


def opened_with(address: str, settings: Settings, token: str, *, terminal: bool) -> str:
    """Return the address to show to a person, including the token as login.

    A token that the person has set is not included. Output that does not go to a ``terminal`` may be stored in a log
    that others read, so it names the token's file instead.
    """
    if settings.web_token is not None:
        return address
    if not terminal:
        return f"{address}  (log in with the token in {settings.newsproof_data_dir / FILE})"
    return f"{address}?{urlencode({'token': token})}"


class Tokens:
    """Authentication by the token as a bearer, or by a session made from it. ``now`` is Unix time in seconds.

    A session holds its expiry and an HMAC under the token, so a new token ends all sessions. ``failures`` limits the
    rate of wrong credentials; valid ones are admitted however many others failed.
    """

    def __init__(self, token: str, failures: Rates, *, now: Callable[[], float] = time.time) -> None:
        self._token, self._failures, self._now = token.encode(), failures, now

    def fits(self, token: str) -> bool:
        """Compare with the token in constant time."""
        return hmac.compare_digest(token.encode("utf-8", "surrogatepass"), self._token)

    def admits(self, headers: Headers, port: int) -> bool:
        """Return whether these headers carry the token, or a valid session of the service at this port."""
        return self.bears(headers) or any(self._is_session(cookie) for cookie in _cookies(headers, cookie_name(port)))

    def bears(self, headers: Headers) -> bool:
        """Return whether these headers carry the token itself."""
        kind, _, value = headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and self.fits(value.strip())

    def offered(self, headers: Headers, port: int) -> bool:
        """Return whether these headers carry a token or a session, valid or not."""
        return "authorization" in headers or any(True for _ in _cookies(headers, cookie_name(port)))

    def failed(self, client: str, clock: float) -> float:
        """Count a request that was not admitted; return 0, or the seconds to wait if there were too many."""
        return self._failures.take(client, clock)

    def cookie(self, port: int, *, secure: bool) -> str:
        """Return the value of the ``Set-Cookie`` header that opens a session."""
        until = str(int(self._now()) + SESSION_S)
        more = "; Secure" if secure else ""
        value = f"{until}.{self._proof(until)}"
        return f"{cookie_name(port)}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={SESSION_S}{more}"

    def _is_session(self, cookie: str) -> bool:
        until, _, proof = cookie.partition(".")
        if not hmac.compare_digest(proof.encode(), self._proof(until).encode()):
            return False
        return self._now() < int(until)  # a number: the proof is ours

    def _proof(self, until: str) -> str:
        return hmac.new(self._token, f"newsproof web session until {until}".encode(), hashlib.sha256).hexdigest()


def cookie_name(port: int) -> str:
    """Return the session cookie's name. It holds the port, because a browser shares cookies between a host's ports."""
    return f"{COOKIE}_{port}"


def _cookies(headers: Headers, name: str) -> Iterable[str]:
    # By hand: the library's parser stops at the first malformed cookie, which any other port may have set.
    for line in headers.getlist("cookie"):
        for pair in line.split(";"):
            cookie, _, value = pair.strip().partition("=")
            if cookie == name:
                yield value.strip('"')
