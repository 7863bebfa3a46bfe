"""OpenAI-compatible endpoints by provider name: ``openai``, ``ollama``, ``llamacpp``, and the gateways of ``OPENAI_GATEWAYS``."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

import msgspec
from pydantic import SecretStr

from infra.origin import KEY_OF_GATEWAY

OPENAI_URL = "https://api.openai.com/v1"
OLLAMA_URL = "http://127.0.0.1:11434/v1"
"""https://docs.ollama.com/api/openai-compatibility"""
LLAMACPP_URL = "http://127.0.0.1:8080/v1"
"""https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md"""
OF_OURS = ("gemini", "openai", "ollama", "llamacpp")
"""Provider names that no gateway may have."""
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_PRIVATE_NAMES = (".localhost", ".local", ".internal", ".lan", ".home.arpa")
"""RFC 6761, RFC 6762, ICANN's resolution 2024.07.29.06, common use, RFC 8375."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a provider answers, and the settings that say so. ``key_setting`` is empty where no key is taken."""

    provider: str
    url: str
    address_setting: str
    key_setting: str = ""
    key: SecretStr | None = None

    @property
    def local(self) -> bool:
        """Whether the address is of this machine or of a private network."""
        return is_local(self.url)

    @property
    def missing(self) -> str | None:
        """Which setting must be set first; None when nothing is missing. A key is optional at a local address."""
        if self.key is not None or self.local:
            return None
        if not self.key_setting:
            return (
                f"give {self.address_setting} an address of this machine or of a private network, or name this one in "
                f"OPENAI_GATEWAYS and its key in {KEY_OF_GATEWAY.upper()}NAME"
            )
        beside = " (and OPENAI_BASE_URL for another endpoint than OpenAI)" if self.provider == "openai" else ""
        return f"set {self.key_setting}{beside}"


def is_local(url: str) -> bool:
    """Return whether the host is loopback, of a private network, or a name that only such a network knows."""
    host = urlsplit(url).hostname or ""
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return bool(host) and ("." not in host or host.endswith(_PRIVATE_NAMES))


def gateways(written: str) -> dict[str, str]:
    """Return name → address of ``OPENAI_GATEWAYS``.

    Raises:
        ValueError: an entry is malformed; the text says what to write.
    """
    urls: dict[str, str] = {}
    for entry in filter(None, (piece.strip() for piece in written.split(","))):
        name, _, url = (part.strip() for part in entry.partition("="))
        if not _NAME.fullmatch(name) or name in OF_OURS:
            raise ValueError(
                f"write name=https://host/v1,…, the name of lower-case letters, digits, - and _, and not {', '.join(OF_OURS)}"
            )
        if key_name(name) in map(key_name, urls):
            raise ValueError(f"{name} is there twice, or differs from another in - and _ alone: give it another name")
        if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname or "@" in urlsplit(url).netloc:
            raise ValueError(
                f"the address of {name} is none: write {name}=https://host/v1, up to and with its version; its key goes "
                f"into {KEY_OF_GATEWAY.upper()}{key_name(name).upper()}"
            )
        urls[name] = url
    return urls


def key_name(gateway: str) -> str:
    """Return how a gateway's name ends the name of its key's setting: variables have no ``-``."""
    return gateway.replace("-", "_")
