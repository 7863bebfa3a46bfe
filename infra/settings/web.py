"""Settings of the web service."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings


class WebSettings(BaseSettings):
    """Settings that only the web service reads."""

    # Web service
    web_host: str = Field(
        "127.0.0.1", description="Address that the web service binds to. Anything but loopback requires WEB_TOKEN"
    )
    web_port: int = Field(
        8700, ge=0, le=65535, description="Port of the web service. 0: a free port, which is printed at the start"
    )
    web_token: SecretStr | None = Field(
        None,
        min_length=16,
        description="Token that every client of the web service must send (Authorization: Bearer …, or once at /login). "
        "Unset: the service accepts only loopback connections, with a token that the first start writes to "
        "NEWSPROOF_DATA_DIR/web-token",
    )
    web_tls_cert_file: Path | None = Field(
        None, description="PEM certificate of the web service, with its chain. Unset: plain HTTP"
    )
    web_tls_key_file: Path | None = Field(
        None, description="PEM key of WEB_TLS_CERT_FILE, not encrypted. Unset: the key is in the same file"
    )
    web_trusted_proxy: str | None = Field(
        None,
        description="Comma-separated addresses or networks of the reverse proxy, whose X-Forwarded-For and "
        "X-Forwarded-Proto headers are trusted. Unset: no proxy is trusted",
    )
    web_max_streams: int = Field(500, ge=1, description="Maximum open event streams per web process")
    web_max_streams_per_address: int = Field(
        100,
        ge=1,
        description="Maximum open event streams per client address. Behind a proxy that WEB_TRUSTED_PROXY does not name, "
        "all clients share the proxy's address",
    )
    web_requests_per_minute: int = Field(600, ge=1, description="Maximum API requests per minute and client address")
    web_questions_per_minute: int = Field(
        20, ge=1, description="Maximum research chat questions per minute and client address"
    )

    @field_validator("web_trusted_proxy")
    @classmethod
    def _are_addresses(cls, value: str | None) -> str | None:
        networks = []
        for address in () if value is None else value.split(","):
            try:
                # Not strict, to accept what `ip address` shows: 172.17.0.1/16 is the network 172.17.0.0/16.
                networks.append(str(ipaddress.ip_network(address.strip(), strict=False)))
            except ValueError as exc:
                raise ValueError(f"{address.strip()!r} is no IP address and no network such as 10.0.0.0/8") from exc
        return ",".join(networks) or None

    def page_at(self, port: int) -> str:
        """Return the URL to open on this machine; ``port`` is the port that is actually bound."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.web_host, self.web_host)
        scheme = "http" if self.web_tls_cert_file is None else "https"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/"
