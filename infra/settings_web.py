"""The settings of the web service: part of :class:`infra.settings.Settings`, in a file of their own for its length."""

from __future__ import annotations

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings


class WebSettings(BaseSettings):
    """What only the web service reads."""

    # The web service
    web_host: str = Field(
        "127.0.0.1", description="Address that the web service is opened on; anything but loopback needs WEB_TOKEN"
    )
    web_port: int = Field(8700, ge=0, le=65535, description="Port of the web service; 0: a free one, which it prints")
    web_token: SecretStr | None = Field(
        None,
        min_length=16,
        description="Whoever uses the web service must know it (Authorization: Bearer …, or once at /login); unset: nobody "
        "is asked, and only loopback is served",
    )
    web_max_streams: int = Field(500, ge=1, description="Open event streams of one web process")
    web_max_streams_per_address: int = Field(
        100, ge=1, description="Of these, so many of one client address; behind a proxy all clients have its address"
    )
    web_requests_per_minute: int = Field(600, ge=1, description="Requests of one client address to the API")
    web_questions_per_minute: int = Field(20, ge=1, description="Questions of one client address to the research chat")

    def page_at(self, port: int) -> str:
        """Return the address that a person on this machine opens; ``port`` is the one that was opened."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.web_host, self.web_host)
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/"
