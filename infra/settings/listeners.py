"""Settings of the listener."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings


class ListenerSettings(BaseSettings):
    """What the listener listens to, and what of it becomes news."""

    # Listener
    listen: bool = Field(False, description="Start the listener with `up`, as `up --listen` does")
    listener_sources: Path | None = Field(
        None,
        description="TOML file of your own sources, in addition to the built-in ones (docs/sources.md). Unset: "
        "sources.toml in the data directory, if it exists",
    )
    listener_contact: str = Field(
        "", pattern=r"^[\x21-\x7e]*$", description="Contact e-mail sent to publishers. Required by the SEC"
    )
    listener_key: SecretStr | None = Field(
        None,
        min_length=20,
        description="Key that signs the listener's news; only signed news counts as a listed source's. Unset: a key that "
        "the first start generates and keeps in the data directory. Listener, workers and `audit` need the "
        "same key. To rotate keys, separate them with commas: the first one signs, all are accepted",
    )
    cryptopanic_api_key: SecretStr | None = Field(
        None, description="API key of the source cryptopanic, which is off by default"
    )
    phoenix_api_key: SecretStr | None = Field(
        None, description="API key of the source phoenix, which is off by default"
    )
    treeofalpha_api_key: SecretStr | None = Field(
        None, description="API key of the source treeofalpha, which is off by default"
    )
    listener_max_age_seconds: float = Field(
        900.0,
        gt=0,
        description="Age in seconds up to which an item counts as just published. Older items are flagged late",
    )
    listener_max_new: int = Field(
        50,
        ge=1,
        description="Maximum items published per poll of a source, or per minute of a socket. The rest follows with the "
        "next poll",
    )
    listener_webhook_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="Port for Standard Webhooks at /hooks/SOURCE. 0: a free port, written to the log. Unset: none",
    )
    listener_webhook_host: str = Field(
        "127.0.0.1",
        description="Address that LISTENER_WEBHOOK_PORT binds to. Anything but loopback is open to the network",
    )
    listener_webhook_secret: SecretStr | None = Field(
        None,
        description="Comma-separated SOURCE=whsec_… pairs: the secret (base64 of 24 to 64 bytes) that signs the source's "
        "webhooks. Sources without a secret have no webhook",
    )
