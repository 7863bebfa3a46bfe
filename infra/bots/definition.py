"""The definitions of bots, read from one TOML file with a table for each bot. That file never holds secrets."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from infra.origin import danger_of
from schemas.errors import ConfigError
from schemas.signals import ACTED_ON, NO_ASSET, Signal

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Allowed = Literal["offline", "backfilled", "late", "injection_suspected", "spoofed_source"]
"""What every bot refuses unless its definition allows it. ``offline``: signals of the offline and simulated modes."""
BotSide = Literal["long", "short"]
Subject = Literal["orders", "retractions", "verdicts", "investigations", "budget", "outages"]
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of entries. They never stop an exit.

    ``min_confidence`` is 0–1; a signal that falls below it asks for nothing any more. ``max_age_s``: seconds since the
    news was published. Days are UTC days.
    """

    min_confidence: Share = 0.7
    max_age_s: Annotated[float, msgspec.Meta(gt=0)] = 300.0
    open_positions: Count = 3
    entries_a_day: Count = 10
    entries_an_hour_per_asset: Count = 1


class BotDefinition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One bot. ``map``: asset → the destination's name of the instrument. ``sides``: the positions that it may open.

    ``mode``: in ``paper`` nothing reaches a market. ``allow``: what it accepts although bots refuse it by default.
    ``template``, ``words`` and ``refused_if``: of a webhook (:mod:`infra.bots.webhook`). ``username``: of freqtrade's
    api_server. ``prices`` and ``fee_bps`` (of the value of each fill): of trades on paper.

    Of a bot that sends messages (:mod:`infra.bots.notify`): ``channel``, and ``to``, the chat where the channel has several.
    ``send``: what it reports. ``quiet``: the hours (23:00-07:00) in ``timezone`` in which it only retracts what it has sent.
    """

    name: str
    kind: str
    url: str = ""
    map: dict[str, str] = {}
    mode: Literal["paper", "live"] = "paper"
    sides: tuple[BotSide, ...] = ("long", "short")
    allow: tuple[Allowed, ...] = ()
    limits: Limits = Limits()
    template: dict[str, Any] | None = None
    words: dict[str, str] = {}
    refused_if: dict[str, str | int | float | bool] = {}
    username: str = "newsproof"
    prices: Literal["exchange", "imported", "invented"] = "exchange"
    fee_bps: Annotated[float, msgspec.Meta(ge=0, le=1000)] = 10.0
    channel: str = ""
    to: str = ""
    send: tuple[Subject, ...] = ("orders", "retractions")
    quiet: str = ""
    timezone: str = "UTC"
    language: Literal["en", "zh"] = "en"

    @property
    def secret_setting(self) -> str:
        """The name of the setting with this bot's secret."""
        return f"BOT_SECRET_{self.name.replace('-', '_').upper()}"

    def barred(self, signal: Signal) -> str | None:
        """Return in words why the bot ignores the signal whatever it says; None if it does not."""
        if signal.provider_mode != "live" and "offline" not in self.allow:
            return f'the signal is {signal.provider_mode}, for testing only: to accept such signals, write allow = ["offline"]'
        if flags := sorted(_REFUSED.intersection(signal.risk_flags).difference(self.allow)):
            return f"the signal is flagged {', '.join(flags)}"
        return None

    def refusal_of(self, signal: Signal) -> str | None:
        """Return in words why the signal's own content forbids acting on it; None if nothing does."""
        if signal.stage != "final" or signal.verdict not in ACTED_ON:
            return f"the verdict is {signal.verdict or 'unknown'} and the stage {signal.stage}"
        if signal.action not in ("buy", "sell"):
            return "the signal is not an order"
        if (why := self.barred(signal)) is not None:
            return why
        if signal.confidence < self.limits.min_confidence:
            return f"confidence {signal.confidence:.2f} is below {self.limits.min_confidence:.2f}"
        if signal.asset.upper() not in self.map and (self.kind != "notify" or signal.asset == NO_ASSET):
            return f"{signal.asset} is not in the map"
        return None


_REFUSED = frozenset[str](Allowed.__args__)  # type: ignore[attr-defined]


def read_bots(file: Path, kinds: tuple[str, ...]) -> dict[str, BotDefinition]:
    """Return name → definition. ``kinds``: those that this version knows.

    Raises:
        ConfigError: the file is missing, another user may write it, or a definition is wrong; the text names the bot
            and the field.
    """
    try:
        if danger := danger_of(file):
            raise ConfigError(
                f"{file} {danger}, and it says where orders are sent: make yourself its only writer (chown, chmod o-w)"
            )
        written = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"there is no file {file}: define bots there (docs/bots.md), or name another file in BOTS_FILE"
        ) from None
    except (OSError, UnicodeError, tomllib.TOMLDecodeError) as exc:
        raise ConfigError(f"{file} cannot be read ({exc}): correct it (docs/bots.md)") from exc
    return {name: _bot(file, name, table, kinds) for name, table in written.items()}


def _bot(file: Path, name: str, table: Any, kinds: tuple[str, ...]) -> BotDefinition:
    where = f"{file}, [{name}]"
    if not _NAME.fullmatch(name) or not isinstance(table, dict):
        raise ConfigError(f"{where}: name each bot's table with 1 to 32 of the characters a-z, 0-9 and -")
    try:
        bot = msgspec.convert({**table, "name": name}, BotDefinition)
    except msgspec.ValidationError as exc:
        raise ConfigError(f"{where}: {exc}. docs/bots.md lists the fields") from exc
    if bot.kind not in kinds:
        raise ConfigError(f"{where}: kind is {bot.kind!r}; write one of {', '.join(kinds)}")
    if len({asset.upper() for asset in bot.map}) < len(bot.map) or len(set(bot.map.values())) < len(bot.map):
        raise ConfigError(
            f"{where}: map names an asset twice, or gives two assets the same instrument; give each asset its own"
        )
    if not bot.map and bot.kind != "notify":
        raise ConfigError(
            f"{where}: map is empty, so the bot would ignore every signal; write asset = instrument pairs"
        )
    if not all(bot.map.values()):
        raise ConfigError(
            f"{where}: map has an asset without an instrument; write its name at the destination, or remove it"
        )
    return msgspec.structs.replace(bot, map={asset.upper(): instrument for asset, instrument in bot.map.items()})
