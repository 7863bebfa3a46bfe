"""The kinds of destinations. A new kind has one row here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from infra.bots.adapter import MessageAdapter, OrderAdapter
from infra.bots.definition import BotDefinition
from schemas.errors import ConfigError

if TYPE_CHECKING:
    from infra.bots.paper import FillPrices
    from infra.settings import Settings


class Kind(NamedTuple):
    """How a destination is made. ``paper_here``: in paper mode, the book on paper takes its place.

    Each maker imports its adapter when it is called, and raises ConfigError, with the field's name, for a wrong
    definition or a missing secret.
    """

    orders: Callable[[BotDefinition, Settings], OrderAdapter] | None = None
    messages: Callable[[BotDefinition, Settings], MessageAdapter] | None = None
    paper_here: bool = False


def _webhook(bot: BotDefinition, settings: Settings) -> OrderAdapter:
    from infra.bots.webhook import WebhookAdapter

    return WebhookAdapter(bot, settings.secrets_of_bot(bot.secret_setting), private=settings.bots_private_addresses)


def _freqtrade(bot: BotDefinition, settings: Settings) -> OrderAdapter:
    from infra.bots.freqtrade import Freqtrade

    return Freqtrade(bot, settings.secrets_of_bot(bot.secret_setting), private=settings.bots_private_addresses)


def _paper(bot: BotDefinition, settings: Settings) -> OrderAdapter:
    from infra.bots.paper import Paper

    if bot.mode == "live":
        raise ConfigError(f'[{bot.name}] is of kind {bot.kind}, which reaches no market: write mode = "paper"')
    if bot.prices == "invented" and settings.mode == "live":
        raise ConfigError(f'[{bot.name}] prices: invented ones are for trying bots offline; write prices = "exchange"')
    return Paper(bot, PRICES[bot.prices](settings))


def exchange_prices(settings: Settings) -> FillPrices:
    """Return the prices of the first exchange that has a market."""
    from infra.bots.paper import ExchangePrices
    from infra.market.exchanges import exchanges

    return ExchangePrices(
        exchanges(
            coinbase=settings.coinbase_base_url,
            binance=settings.binance_base_url,
            timeout_s=settings.deep_analysis_tool_timeout,
            correct="correct the bot's map",
        )
    )


def imported_prices(settings: Settings) -> FillPrices:
    """Return the prices that were imported into ClickHouse."""
    from infra.bots.paper import ImportedPrices
    from infra.clickhouse.client import connect

    url = settings.clickhouse_url
    return ImportedPrices(connect(url, database=settings.clickhouse_database) if url else None)


def invented_prices(settings: Settings) -> FillPrices:
    """Return prices that are made up, for trying a bot without a network."""
    from infra.bots.paper import InventedPrices

    return InventedPrices()


PRICES: dict[str, Callable[[Settings], FillPrices]] = {
    "exchange": exchange_prices,
    "imported": imported_prices,
    "invented": invented_prices,
}
"""The sources of prices on paper, by their name in a definition."""


def _notify(bot: BotDefinition, settings: Settings) -> MessageAdapter:
    from infra.bots.notify import message_adapter

    return message_adapter(bot, settings.secrets_of_bot(bot.secret_setting))


KINDS: dict[str, Kind] = {
    "webhook": Kind(orders=_webhook, paper_here=True),
    "freqtrade": Kind(orders=_freqtrade),
    "paper": Kind(orders=_paper),
    "notify": Kind(messages=_notify),
}


def order_adapter(bot: BotDefinition, settings: Settings) -> OrderAdapter:
    """Return the destination of a bot that trades.

    Raises:
        ConfigError: the definition is wrong, its secret is missing, or it only sends messages.
    """
    kind = KINDS["paper" if bot.mode == "paper" and KINDS[bot.kind].paper_here else bot.kind]
    if kind.orders is None:
        raise ConfigError(f"{bot.name} is of kind {bot.kind}, which sends messages and has no positions")
    return kind.orders(bot, settings)


def message_adapter(bot: BotDefinition, settings: Settings) -> MessageAdapter:
    """Return the channel of a bot that sends messages.

    Raises:
        ConfigError: the definition is wrong, its secret is missing, or it trades.
    """
    if (made := KINDS[bot.kind].messages) is None:
        raise ConfigError(f"{bot.name} is of kind {bot.kind}, which trades and sends no messages")
    return made(bot, settings)
