"""Redaction of secrets in logs, error outputs, failures in the journal and providers' responses.

A provider may echo a request, and a client library may put it into an exception. There are two lines of defence.
The HTTP client removes a request's own credentials from the response (:func:`without_credentials`). Everything written
to a log or an error output passes :func:`redacted`, which knows the secrets of the settings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit

PUT_INSTEAD = "[secret]"
MIN_LENGTH = 6
"""Shorter values are ordinary words: removing them would spoil texts and hide nothing."""
_CARRIES_A_SECRET = re.compile(r"auth|key|token|secret|password|cookie|subscription", re.IGNORECASE).search
_PASSWORD_IN_ADDRESS = re.compile(r"(?<=://)([^\s:/@]*):([^\s/@]+)@")

_known: list[str] = []


def remember(settings: Any) -> None:
    """Register the secrets of these settings for redaction: every ``SecretStr``, alone or in a mapping, and passwords in URLs."""
    from pydantic import SecretStr  # already loaded by a caller with such settings; a plain Kafka client never loads it

    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, SecretStr):
            know(value.get_secret_value())
        elif isinstance(value, Mapping):
            know(*(secret.get_secret_value() for secret in value.values()))
        elif isinstance(value, str) and "@" in value:
            know(*(urlsplit(url.strip()).password or "" for url in value.split(",") if "://" in url))


def know(*secrets: str) -> None:
    """Register secrets for redaction, in every form in which they are commonly written.

    Values shorter than ``MIN_LENGTH`` are ignored.
    """
    for secret in secrets:
        if len(secret) >= MIN_LENGTH:
            _known.extend(form for form in _forms(secret) if form not in _known)
    _known.sort(key=len, reverse=True)


def _forms(secret: str) -> set[str]:
    plain = {secret, unquote(secret), secret.strip()}
    escaped = {json.dumps(form)[1:-1] for form in plain} | {form.replace("/", "\\/") for form in plain}
    return {form for form in plain | escaped | {quote(form, safe="") for form in plain} if len(form) >= MIN_LENGTH}


def redacted(text: str) -> str:
    """Return the text with all registered secrets, and all passwords in URLs, replaced by ``PUT_INSTEAD``."""
    for secret in _known:
        if secret in text:
            text = text.replace(secret, PUT_INSTEAD)
    return _PASSWORD_IN_ADDRESS.sub(rf"\1:{PUT_INSTEAD}@", text) if "://" in text else text


def credentials_in(pairs: Iterable[tuple[str, str]]) -> list[bytes]:
    """Return the values of headers or query parameters whose names indicate a secret, in all forms, longest first."""
    values: set[str] = set()
    for name, value in pairs:
        if _CARRIES_A_SECRET(name):
            values |= {value, *value.split(" ")}  # "Bearer KEY": the key alone, too
    forms = {form for value in values if len(value) >= MIN_LENGTH for form in _forms(value)}
    return [form.encode() for form in sorted(forms, key=len, reverse=True)]


def without_credentials(body: bytes, credentials: Iterable[bytes]) -> bytes:
    """Return a provider's response body without the credentials of its request."""
    for credential in credentials:
        if credential in body:
            body = body.replace(credential, PUT_INSTEAD.encode())
    return body
