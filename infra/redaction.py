"""Secrets are taken out of texts before they leave: logs, error outputs, failures in the journal, providers' answers.

A provider may repeat what it was sent, a client library may put it into an exception. Two lines of defence: the HTTP client
takes a request's own credentials out of the answer (:func:`without_credentials`), and whatever goes to a log or an error
output passes :func:`redacted`, which knows the secrets of the settings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from pydantic import SecretStr

PUT_INSTEAD = "[secret]"
MIN_LENGTH = 6
"""Shorter values are words of ordinary texts: taking them out would spoil the texts and hide nothing."""
_CARRIES_A_SECRET = re.compile(r"auth|key|token|secret|password|cookie|subscription", re.IGNORECASE).search
_PASSWORD_IN_ADDRESS = re.compile(r"(?<=://)([^\s:/@]*):([^\s/@]+)@")

_known: list[str] = []


def remember(settings: Any) -> None:
    """Know the secrets of these settings from now on: every ``SecretStr``, and passwords in addresses."""
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, SecretStr):
            know(value.get_secret_value())
        elif isinstance(value, str) and "@" in value:
            know(*(urlsplit(one.strip()).password or "" for one in value.split(",") if "://" in one))


def know(*secrets: str) -> None:
    """Know these secrets from now on, in every way in which they are commonly written."""
    for secret in secrets:
        if len(secret) >= MIN_LENGTH:
            _known.extend(form for form in _forms(secret) if form not in _known)
    _known.sort(key=len, reverse=True)


def _forms(secret: str) -> set[str]:
    plain = {secret, unquote(secret), secret.strip()}
    escaped = {json.dumps(one)[1:-1] for one in plain} | {one.replace("/", "\\/") for one in plain}
    return {one for one in plain | escaped | {quote(one, safe="") for one in plain} if len(one) >= MIN_LENGTH}


def redacted(text: str) -> str:
    """Return the text without secrets of the settings and without passwords in addresses."""
    for secret in _known:
        if secret in text:
            text = text.replace(secret, PUT_INSTEAD)
    return _PASSWORD_IN_ADDRESS.sub(rf"\1:{PUT_INSTEAD}@", text) if "://" in text else text


def credentials_in(pairs: Iterable[tuple[str, str]]) -> list[bytes]:
    """Return the values of headers or query parameters whose names say that they carry a secret."""
    found: set[str] = set()
    for name, value in pairs:
        if _CARRIES_A_SECRET(name):
            found |= {value, *value.split(" ")}  # "Bearer KEY": the key alone, too
    forms = {form for value in found if len(value) >= MIN_LENGTH for form in _forms(value)}
    return [form.encode() for form in sorted(forms, key=len, reverse=True)]


def without_credentials(body: bytes, credentials: Iterable[bytes]) -> bytes:
    """Return a provider's answer without the credentials that it was asked with."""
    for one in credentials:
        if one in body:
            body = body.replace(one, PUT_INSTEAD.encode())
    return body


__all__ = ["MIN_LENGTH", "PUT_INSTEAD", "credentials_in", "know", "redacted", "remember", "without_credentials"]
