from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from infra.models.call_costs import Prices, TokenUsage
from schemas.errors import ConfigError

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)
MILLION = 1_000_000


def write(path: Path, text: str) -> Path:
    file = path / "overrides.json"
    file.write_text(text, encoding="utf-8")
    return file


def test_input_cached_output_and_thinking_tokens_are_priced_each_at_its_rate() -> None:
    usage = TokenUsage(input=1000, cached=400, output=200, thinking=300)
    cost = Prices().cost("gemini-2.5-pro", usage, AT)
    # 1.25, 0.125 and 10 USD per million tokens: input, cached input, output with thinking
    assert cost.usd == (600 * Decimal("1.25") + 400 * Decimal("0.125") + 500 * Decimal(10)) / MILLION
    assert cost.source.startswith("genai-prices ")
    assert cost.source.endswith(" at 2026-11-21")


def test_long_prompts_take_the_price_of_their_tier() -> None:
    short = Prices().cost("gemini-2.5-pro", TokenUsage(input=200_000), AT).usd
    long = Prices().cost("gemini-2.5-pro", TokenUsage(input=400_000), AT).usd
    assert short is not None
    assert long is not None
    assert long == 4 * short


def test_the_price_is_that_of_the_time_of_the_request() -> None:
    usage = TokenUsage(input=MILLION, output=MILLION)
    before, after = (
        Prices().cost("gemini-3.8-flash", usage, day)
        for day in (datetime(2026, 12, 30, tzinfo=UTC), datetime(2027, 1, 2, tzinfo=UTC))
    )
    # The list knows that this model's introductory price ends with the year 2026.
    assert (before.usd, after.usd) == (Decimal("4.5"), Decimal(9))
    assert (before.source[-10:], after.source[-10:]) == ("2026-12-30", "2027-01-02")


@pytest.mark.parametrize("model", ["gemini-99-ultra", "gpt-4o", "", "offline-rules"])
def test_an_unknown_model_costs_none_and_never_zero(model: str) -> None:
    cost = Prices().cost(model, TokenUsage(input=10, output=10), AT)
    assert (cost.usd, cost.source) == (None, "unknown")
    assert Prices().worst_case_usd(model, 10, 10, at=AT) is None


@pytest.mark.parametrize("usage", [TokenUsage(input=5, cached=9), TokenUsage(), TokenUsage(thinking=3)])
def test_odd_usage_is_priced_rather_than_a_crash(usage: TokenUsage) -> None:
    usd = Prices().cost("models/gemini-2.5-flash-lite", usage, AT).usd
    assert usd is not None
    assert usd >= 0


def test_the_latest_override_in_force_wins_over_the_list(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        """[{"model": "models/Gemini-X", "since": "2026-01-01", "input_usd": "1", "output_usd": "2"},
            {"model": "gemini-x", "since": "2026-11-01", "input_usd": "3", "output_usd": "4", "cached_usd": "0.5"},
            {"model": "gemini-x", "since": "2026-12-01", "input_usd": "99", "output_usd": "99"}]""",
    )
    usage = TokenUsage(input=MILLION, cached=MILLION // 2, output=MILLION // 2, thinking=MILLION // 2)
    prices = Prices(file)
    now, spring, before = (
        prices.cost("gemini-x", usage, datetime(*day, tzinfo=UTC))
        for day in ((2026, 11, 21), (2026, 3, 1), (2025, 1, 1))
    )
    assert (now.usd, now.source) == (Decimal("1.5") + Decimal("0.25") + 4, "override of 2026-11-01")
    assert (spring.usd, spring.source) == (Decimal(3), "override of 2026-01-01")
    assert before.usd is None


@pytest.mark.parametrize("text", ["", "{", '{"model": "x"}', '[{"model": "x"}]', '[{"model": "x", "cost": 1}]'])
def test_a_broken_override_file_is_refused_at_the_start_with_an_example(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="input_usd"):
        Prices(write(tmp_path, text))


def test_without_an_override_file_the_list_alone_counts(tmp_path: Path) -> None:
    usage = TokenUsage(input=1)
    assert Prices(tmp_path / "none.json").cost("gemini-2.5-pro", usage, AT) == Prices().cost(
        "gemini-2.5-pro", usage, AT
    )
