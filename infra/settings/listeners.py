"""Settings of the listener."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings


class ListenerSettings(BaseSettings):
    """What the listener listens to, and what of it becomes news."""

    # The listener
    listen: bool = Field(False, description="`up` starts the listener too, as `up --listen` does")
    listener_sources: Path | None = Field(
        None,
        description="TOML file of your own sources, beside those that ship (docs/sources.md); unset: sources.toml in the data "
        "directory, where there is one",
    )
    listener_contact: str = Field(
        "",
        pattern=r"^[\x21-\x7e]*$",
        description="Mail address that publishers are told; the SEC answers nobody without one",
    )
    listener_key: SecretStr | None = Field(
        None,
        min_length=20,
        description="The listener marks its news with it, and only marked news counts as a listed source's; unset: a key that "
        "the first start keeps in the data directory. Listener, workers and `audit` need the same one. Several, separated by "
        "commas: the first marks, all are accepted",
    )
    cryptopanic_api_key: SecretStr | None = Field(
        None, description="Of the source cryptopanic, which is off by default"
    )
    phoenix_api_key: SecretStr | None = Field(None, description="Of the source phoenix, which is off by default")
    treeofalpha_api_key: SecretStr | None = Field(
        None, description="Of the source treeofalpha, which is off by default"
    )
    listener_max_age_seconds: float = Field(
        900.0, gt=0, description="Up to this age an item counts as just published; older ones are flagged late"
    )
    listener_max_new: int = Field(
        50, ge=1, description="News of one look at a source, or of a socket's minute; the rest waits for the next"
    )
    listener_webhook_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="Takes Standard Webhooks at /hooks/SOURCE; unset: none; 0: a free one, which the log names",
    )
    listener_webhook_host: str = Field(
        "127.0.0.1",
        description="Address that LISTENER_WEBHOOK_PORT is opened on; anything but loopback is open to the network",
    )
    listener_webhook_secret: SecretStr | None = Field(
        None,
        description="SOURCE=whsec_… for each hook, with a comma between: the secret (base64 of 24 to 64 bytes) that its sender "
        "signs with; no other source has a hook",
    )
