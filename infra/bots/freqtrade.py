"""A freqtrade bot as destination, over its REST API: forced entries with our reference as tag, and forced exits.

freqtrade reports refusals with status 502 and a text in the body, so the body decides, not the status. A strategy that
refuses a tag that it has seen is in ``examples/freqtrade``; docs/bots.md shows the configuration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from infra.bots.adapter import Order, RemotePosition, Result
from infra.bots.definition import BotDefinition
from infra.http import BoundedTransport, checked_address, quoted, tls_context
from infra.redaction import know
from schemas.errors import ConfigError, NewsproofError, TransientError

TAG = "np_"
"""Tags of our trades begin with it. Trades with another tag are never touched."""
TIMEOUT_S = 10.0
_MAX_ANSWER_BYTES = 8 * 1024 * 1024
_CLOSED_READ = 500
"""The latest closed trades that are read: the most that freqtrade returns."""
_Answer = dict[str, Any] | list[Any] | None


class Freqtrade:
    """A freqtrade bot. It holds at most one trade of a pair."""

    def __init__(self, bot: BotDefinition, secrets: Sequence[str], *, private: bool) -> None:
        """``private``: freqtrade may have a loopback or private address. In mode paper it has to be in dry run.

        Raises:
            ConfigError: the address, the username or the password is missing or wrong; the text names it.
        """
        where = f"[{bot.name}]"
        self._url = checked_address(bot.url, f"{where} url")
        if not private:
            raise ConfigError(
                f"{where} url: freqtrade's API is meant for your own network: set BOTS_PRIVATE_ADDRESSES=true"
            )
        if not bot.username or len(secrets) != 1:
            raise ConfigError(
                f"{where}: username is empty, or {bot.secret_setting} is not set to one password without a comma; they are "
                "username and password of api_server in freqtrade's configuration"
            )
        know(*secrets)
        self._bot = bot
        # Not freqtrade's own client: it is GPL, and hides statuses and lost connections.
        self._http = httpx.AsyncClient(
            base_url=f"{self._url.rstrip('/')}/api/v1/",
            auth=(bot.username, secrets[0]),
            transport=BoundedTransport(httpx.AsyncHTTPTransport(verify=tls_context()), _MAX_ANSWER_BYTES),
            timeout=TIMEOUT_S,
            follow_redirects=False,
            trust_env=False,  # a proxy of the environment is not for a bot next door
        )

    async def check(self) -> None:
        """Raise ConfigError with everything that freqtrade's configuration has to change."""
        config = await self._read("show_config")
        if not isinstance(config, dict) or "state" not in config:
            raise ConfigError(
                f"freqtrade at {self._url} refuses ({_words(config)}): correct username or {self._bot.secret_setting}"
            )
        if wrong := [text for text, is_wrong in self._findings(config).items() if is_wrong]:
            raise ConfigError(f"freqtrade at {self._url} is not ready: {'; '.join(wrong)}")

    def _findings(self, config: Mapping[str, Any]) -> dict[str, bool]:
        trades = float(config.get("max_open_trades") or 0)  # inf, or -1 without a limit
        return {
            'it trades real money; set "dry_run": true there, or mode = "live" here': (
                self._bot.mode == "paper" and config.get("dry_run") is not True
            ),
            'it is in dry run; set "dry_run": false there, or mode = "paper" here': (
                self._bot.mode == "live" and config.get("dry_run") is not False
            ),
            'forced entries are off; set "force_entry_enable": true': config.get("force_entry_enable") is not True,
            "position_adjustment_enable is on, so an entry could be made larger; turn it off in its strategy": (
                config.get("position_adjustment_enable") is not False
            ),
            # Paused, as by stop_entries, it still exits.
            f"its state is {config['state']!r:.20}; start it with POST /api/v1/start": config["state"]
            not in ("running", "paused"),
            f"max_open_trades is {trades:g}, below open_positions {self._bot.limits.open_positions}; make them agree": (
                0 <= trades < self._bot.limits.open_positions
            ),
            'it cannot go short (spot); write sides = ["long"]': (
                "short" in self._bot.sides and config.get("short_allowed") is not True
            ),
        }

    async def positions(self) -> Mapping[str, RemotePosition] | None:
        """Return our open trades, and those of the latest 500 closed ones that are ours."""
        opened = await self._read("status")
        # Read after the open ones: what closes in between is in both, and the later reading counts.
        closed = await self._read(f"trades?limit={_CLOSED_READ}&order_by_id=false")
        trades = [*_list(opened), *_list(closed.get("trades") if isinstance(closed, dict) else closed)]
        return {position.reference: position for position in map(_position, trades) if position is not None}

    async def perform(self, order: Order) -> Result:
        return await (self._enter(order) if order.intent == "enter" else self._exit(order))

    async def _enter(self, order: Order) -> Result:
        tag = f"{TAG}{order.reference}"
        wanted = {"pair": order.instrument, "side": order.side, "entry_tag": tag}
        answer = await self._ask("POST", "forceenter", wanted)
        if not isinstance(answer, dict):
            return Result(outcome="unknown", reason="freqtrade's response was lost")
        if answer.get("trade_id") is None:
            return Result(outcome="refused", reason=_words(answer))
        if answer.get("enter_tag") != tag:
            return Result(outcome="unknown", reason=f"freqtrade returned another trade: {_words(answer)}")
        return Result(outcome="delivered", remote_id=str(answer["trade_id"]))

    async def _exit(self, order: Order) -> Result:
        try:
            there = (await self.positions() or {}).get(order.reference)
        except TransientError as exc:
            return Result(outcome="throttled", reason=str(exc), wait_s=1.0)
        if there is None or not there.is_open:
            return Result(outcome="delivered", reason="freqtrade has no open trade of this entry")
        answer = await self._ask("POST", "forceexit", {"tradeid": there.remote_id})
        if not isinstance(answer, dict):
            return Result(outcome="unknown", reason="freqtrade's response was lost", remote_id=there.remote_id)
        done = isinstance(answer.get("result"), str)
        return Result(outcome="delivered" if done else "refused", reason=_words(answer), remote_id=there.remote_id)

    async def stop_entries(self) -> None:
        """Let freqtrade itself open nothing any more (its state becomes paused); exits go on. ``/start`` there ends it.

        Raises:
            TransientError: it does not respond, or refuses.
        """
        answer = await self._read("stopentry", method="POST")
        if "status" not in answer:
            raise TransientError(f"freqtrade at {self._url} does not stop entries: {_words(answer)}")

    async def close(self) -> None:
        await self._http.aclose()

    async def _read(self, what: str, *, method: str = "GET") -> dict[str, Any] | list[Any]:
        answer = await self._ask(method, what)
        if answer is None:
            raise TransientError(f"freqtrade at {self._url} does not respond: start it, or correct url")
        return answer

    async def _ask(self, method: str, what: str, body: Mapping[str, Any] | None = None) -> _Answer:
        """Return the body; None if there was no answer, or one that is no JSON."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                answer = (await self._http.request(method, what, json=body)).json()
        except (TimeoutError, httpx.HTTPError, NewsproofError, ValueError, RecursionError):
            return None
        return answer if isinstance(answer, dict | list) else None


def _position(trade: Any) -> RemotePosition | None:
    if not isinstance(trade, dict) or not str(trade.get("enter_tag")).startswith(TAG):
        return None
    return RemotePosition(
        instrument=str(trade["pair"]),
        side="short" if trade.get("is_short") else "long",
        reference=str(trade["enter_tag"]).removeprefix(TAG),
        remote_id=str(trade["trade_id"]),
        is_open=trade["is_open"] is True,
    )


def _list(trades: Any) -> list[Any]:
    if not isinstance(trades, list):
        raise TransientError(f"freqtrade's trades cannot be read: {_words(trades)}")
    return trades


def _words(answer: Any) -> str:
    """Return freqtrade's own words."""
    detail = (
        answer
        if not isinstance(answer, dict)
        else next((answer[name] for name in ("error", "detail", "status", "result") if name in answer), answer)
    )
    return quoted(str(detail), 200)
