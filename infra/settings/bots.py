"""Settings of bots. Their definitions are in a file (:mod:`infra.bots.definition`)."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings


class BotSettings(BaseSettings):
    """Where bots are defined, and their secrets."""

    # Bots
    bots_file: Path = Field(Path("bots.toml"), description="TOML file that defines the bots (docs/bots.md)")
    bot_secret: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="Secret of a bot, one setting each: BOT_SECRET_MY_BOT is that of my-bot (write - as _). For a webhook, "
        "whsec_…; during a rotation two, separated by a comma: both sign. For messages, as docs/bots-messages.md says",
    )
    bots_private_addresses: bool = Field(
        False, description="Bots may call loopback and private addresses, such as a freqtrade on this machine"
    )
    bots_page_url: str | None = Field(
        None,
        description="Address of the web service for the links in bots' messages, such as https://news.example.com. Unset: its "
        "address on this machine, which only opens here",
    )

    def secrets_of_bot(self, setting: str) -> tuple[str, ...]:
        """Return the secrets in a setting such as ``BOT_SECRET_MY_BOT``; empty if it is not set."""
        secret = self.bot_secret.get(setting.removeprefix("BOT_SECRET_").lower())
        return (
            () if secret is None else tuple(s for part in secret.get_secret_value().split(",") if (s := part.strip()))
        )
