"""The cost of a model call in USD at the time of its request, and the maximum number of tokens in a prompt.

Prices come from a local file of dated overrides, otherwise from the table bundled with ``genai-prices`` (nothing is
fetched). An unknown price is None, never 0: 0 means free.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path

import genai_prices
import msgspec
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import PriceCalculation

from schemas.effects import CallModel
from schemas.errors import ConfigError

OVERRIDES_PATH = Path(__file__).with_name("price_overrides.json")
"""Optional JSON list of :class:`PriceOverride`, for prices that are wrong or outdated in the bundled table."""
UNKNOWN = "unknown"
LOCAL = "local, free"
_PER_MTOK = Decimal(1_000_000)


class TokenUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of one call. ``input`` includes ``cached`` and tool-use prompts; ``output`` excludes ``thinking``."""

    input: int = 0
    cached: int = 0
    output: int = 0
    thinking: int = 0


class Cost(msgspec.Struct, frozen=True):
    """A cost; ``usd`` None = unknown. ``source`` names the price list, its version and the date of the price."""

    usd: Decimal | None
    source: str


class PriceOverride(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A price in USD per million tokens, valid from a UTC date until a later entry for the same model.

    ``cached_usd`` defaults to the input price; thinking is billed as output. ``note`` gives the source of the price.
    """

    model: str
    since: date
    input_usd: Decimal
    output_usd: Decimal
    cached_usd: Decimal | None = None
    note: str = ""


class Prices:
    """The price list of a provider. ``provider`` is its id in ``genai-prices``, such as ``google``.

    ``free``: models without an override cost nothing, because they run on the user's own machine.
    """

    def __init__(self, overrides: Path = OVERRIDES_PATH, *, provider: str = "google", free: bool = False) -> None:
        """Read the overrides if the file exists.

        Raises:
            ConfigError: the file exists and is not a list of :class:`PriceOverride`.
        """
        self._provider, self.free = provider, free
        self._overrides = _read_overrides(overrides)
        # Loading the list takes a fifth of a second, so it is done now and not during the first call in an event loop.
        get_snapshot()
        self._list_name = f"genai-prices {version('genai-prices')}"

    def cost(self, model: str, usage: TokenUsage, at: datetime) -> Cost:
        """Return the cost of the usage at the prices of ``at`` (timezone-aware)."""
        day = at.astimezone(UTC).date()
        override = self._override(model, day)
        if override is not None:
            return Cost(_override_usd(override, usage), f"override of {override.since.isoformat()}")
        if self.free:
            return Cost(Decimal(0), LOCAL)
        calculation = self._look_up(model, usage, at)
        if calculation is None:
            return Cost(None, UNKNOWN)
        return Cost(calculation.total_price, f"{self._list_name} at {day.isoformat()}")

    def worst_case_usd(
        self, model: str, input_tokens: int, max_output_tokens: int, *, at: datetime | None = None
    ) -> Decimal | None:
        """Return the maximum cost of a call: nothing cached, every output token used. None = the price is unknown."""
        usage = TokenUsage(input=input_tokens, output=max_output_tokens)
        return self.cost(model, usage, at or datetime.now(UTC)).usd

    def _override(self, model: str, day: date) -> PriceOverride | None:
        in_force = [o for o in self._overrides if o.model == model.lower().removeprefix("models/") and o.since <= day]
        return max(in_force, key=lambda o: o.since, default=None)

    def _look_up(self, model: str, usage: TokenUsage, at: datetime) -> PriceCalculation | None:
        tokens = genai_prices.Usage(
            input_tokens=usage.input,
            cache_read_tokens=min(usage.cached, usage.input),
            output_tokens=usage.output + usage.thinking,
            output_reasoning_tokens=usage.thinking,
        )
        try:
            calculation = genai_prices.calc_price(
                tokens, model.removeprefix("models/"), provider_id=self._provider, genai_request_timestamp=at
            )
        except (LookupError, ValueError):
            # The list does not have the model, or not the price of something that was used.
            return None
        # The list counts a missing price as 0. Embedding models have no price for output, and no output.
        prices = calculation.model_price
        unpriced = prices.input_mtok is None or (prices.output_mtok is None and usage.output + usage.thinking > 0)
        return None if unpriced else calculation


def _override_usd(override: PriceOverride, usage: TokenUsage) -> Decimal:
    cached = min(usage.cached, usage.input)
    cached_usd = override.input_usd if override.cached_usd is None else override.cached_usd
    total = (
        (usage.input - cached) * override.input_usd
        + cached * cached_usd
        + (usage.output + usage.thinking) * override.output_usd
    )
    return total / _PER_MTOK


def _read_overrides(path: Path) -> tuple[PriceOverride, ...]:
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return ()
    except OSError as exc:
        raise ConfigError(f"cannot read the price overrides {path}: {exc}; make it readable or remove it") from exc
    try:
        entries = msgspec.json.decode(raw, type=tuple[PriceOverride, ...])
    except msgspec.DecodeError as exc:
        raise ConfigError(
            f"{path} is not a list of price overrides: {exc}. Each entry needs model, since (YYYY-MM-DD), "
            "input_usd and output_usd (USD per million tokens, as strings), such as "
            '{"model": "gemini-3.8-flash", "since": "2027-01-01", "input_usd": "1.50", "output_usd": "7.50"}'
        ) from exc
    return tuple(msgspec.structs.replace(e, model=e.model.lower().removeprefix("models/")) for e in entries)


AROUND_A_REQUEST = 1024
"""Maximum tokens around the texts: roles, the sentence that explains the marks (under 500 bytes), a schema's frame."""
AROUND_A_PART = 256
"""Maximum tokens around a part (marks and label, under 170 bytes) or around a function's declaration."""


def most_input_tokens(effect: CallModel) -> int:
    """Return the maximum number of tokens for any tokenizer: a token has at least one byte of UTF-8.

    The adapter's cleaning shortens texts. The replacement of a forged mark (14 bytes) has fewer tokens than the mark's
    shortest form had bytes (11).
    """
    texts = [effect.system, *(part.text for part in effect.parts)]
    schemas = [*(f.parameters for f in effect.functions), effect.response_schema or {}]
    written = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    declared = sum(len(msgspec.json.encode(schema)) for schema in schemas)
    named = sum(len(f.name.encode()) + len(f.description.encode()) for f in effect.functions)
    around = AROUND_A_REQUEST + AROUND_A_PART * (len(effect.parts) + len(effect.functions))
    return written + declared + named + around
