"""The composition root: which adapters a mode gets, and that nothing falls back silently."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from infra.clickhouse.client import connect
from infra.offline.model import OfflineModel
from infra.offline.search import OfflineSearch
from infra.offline.simulated import Simulated
from infra.settings import Settings
from newsproof.app import composition
from newsproof.app.research_composition import research_ports_of
from schemas.effects import CallModel, FindSignals, Search
from schemas.errors import ConfigError

KEYS = {"gemini_api_key": "g-key", "tavily_api_key": "t-key"}


def settings(**values: Any) -> Settings:
    return Settings(_env_file=None, **values)


def ports(at: Settings) -> Any:
    return composition.ports_of(at, connect("http://127.0.0.1:1", database="none"), Simulated())


def test_without_a_key_the_mode_is_offline_and_every_part_says_so() -> None:
    made = ports(settings())
    assert isinstance(made.models["light"], OfflineModel) and isinstance(made.search["offline"], OfflineSearch)
    snapshot = composition.snapshot_of(settings())
    assert (snapshot.provider_mode, snapshot.search_providers) == ("offline", ("offline",))


@pytest.mark.parametrize(
    ("values", "mode"),
    [({}, "offline"), ({"newsproof_mode": "simulated"}, "simulated"), ({**KEYS, "newsproof_mode": "live"}, "live")],
)
def test_the_signals_that_a_chat_finds_carry_the_mode_of_their_installation(values: dict[str, Any], mode: str) -> None:
    made = research_ports_of(settings(**values), connect("http://127.0.0.1:1", database="none"))
    now = datetime(2026, 3, 1, tzinfo=UTC)
    port = made.of(FindSignals(asset="BTC", since=now, as_of=now, limit=1))
    assert (port.provider, port.mode) == ("clickhouse", mode)


def test_live_mode_gets_gemini_for_both_tiers_and_tavily() -> None:
    made = ports(settings(**KEYS))
    assert {tier: one.model for tier, one in made.models.items()} == {
        "light": "gemini-2.5-flash-lite",
        "heavy": "gemini-3.8-flash",
    }
    assert set(made.search) == {"tavily"}
    assert composition.snapshot_of(settings(**KEYS)).provider_mode == "live"


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ({"newsproof_mode": "live"}, "GEMINI_API_KEY"),
        ({**KEYS, "deep_analysis_search_provider": "bocha"}, "BOCHA_API_KEY"),
        ({"newsproof_mode": "live", "tavily_api_key": "k"}, "GEMINI_API_KEY"),
        ({"gemini_api_key": "k", "deep_analysis_search_provider": "tavily"}, "TAVILY_API_KEY"),
        ({**KEYS, "deep_analysis_search_provider": "tavily,altavista"}, "altavista"),
    ],
)
def test_live_mode_without_what_it_needs_is_refused_by_name(values: dict[str, Any], names: str) -> None:
    with pytest.raises(ConfigError, match=names):
        composition.refuse_unusable(settings(**values))


def test_one_key_of_a_model_is_enough_and_what_takes_the_place_of_a_search_key_is_said() -> None:
    at = settings(gemini_api_key="k")
    composition.refuse_unusable(at)
    assert set(ports(at).search) == {"gdelt"}
    snapshot = composition.snapshot_of(at)
    assert (snapshot.search_providers, snapshot.tool_scrape_enabled) == (("gdelt",), True)
    assert composition.search_in_words(at).startswith("gdelt because no search key is set")
    assert composition.search_in_words(settings(**KEYS)) == "tavily"
    both = composition.search_in_words(settings(gemini_api_key="k", listen=True))
    assert both.startswith("feeds (items from the listener), gdelt because no search key is set")
    assert composition.search_in_words(settings()) == ""


@pytest.mark.parametrize(
    ("values", "providers", "opens"),
    [
        ({"tool_scrape_enabled": False}, ("gdelt",), False),
        ({"deep_analysis_search_provider": "gdelt"}, ("gdelt",), True),
        ({"deep_analysis_search_provider": "gdelt", **KEYS}, ("gdelt",), True),
        ({"deep_analysis_search_provider": "arxiv"}, ("arxiv",), False),
        ({"searxng_url": "http://127.0.0.1:8888"}, ("searxng",), False),
        ({"bocha_api_key": "b"}, ("bocha",), False),
        ({"bocha_api_key": "b", **KEYS}, ("bocha", "tavily"), False),
        ({"tavily_api_key": "t", "deep_analysis_search_provider": "tavily,gdelt"}, ("tavily", "gdelt"), False),
        ({"listen": True}, ("feeds", "gdelt"), True),
        ({"listen": True, **KEYS}, ("tavily", "feeds"), False),
        ({"listen": True, "deep_analysis_search_provider": "gdelt"}, ("gdelt",), True),
        ({"deep_analysis_search_provider": "feeds"}, ("feeds",), True),
    ],
)
def test_what_a_person_chose_is_kept_and_what_is_set_up_is_asked(
    values: dict[str, Any], providers: tuple[str, ...], opens: bool
) -> None:
    at = settings(**{"gemini_api_key": "k", **values})
    composition.refuse_unusable(at)
    snapshot = composition.snapshot_of(at)
    assert (snapshot.search_providers, snapshot.tool_scrape_enabled) == (providers, opens)


def test_live_mode_without_searching_needs_no_search_key() -> None:
    at = settings(gemini_api_key="k", tool_search_enabled=False)
    composition.refuse_unusable(at)
    assert ports(at).search == {}


def test_simulated_answers_carry_no_other_label() -> None:
    at = settings(newsproof_mode="simulated", **KEYS)
    made = ports(at)
    assert {made.models["heavy"].mode, made.search["simulated"].mode} == {"simulated"}
    assert composition.snapshot_of(at).provider_mode == "simulated"


def test_no_secret_and_no_address_reaches_the_snapshot_that_is_published() -> None:
    others = {"ragflow_endpoint": "http://ragflow:9380", "ragflow_api_key": "r-key", "ragflow_dataset_id": "d"}
    at = settings(**KEYS, **others, kafka_bootstrap_servers="broker:9092", clickhouse_url="http://u:p@db:8123")
    text = msgspec.json.encode(composition.snapshot_of(at)).decode()
    assert not any(word in text for word in ("g-key", "t-key", "r-key", "ragflow:9380", "broker:9092", "db:8123"))


def test_demo_entities_with_synthetic_hosts_take_no_part_in_live_mode() -> None:
    live, offline = (composition.snapshot_of(settings(**values)).tables for values in (KEYS, {}))
    assert not any(entity.synthetic for entity in live.entities)
    assert any(entity.synthetic for entity in offline.entities)


def test_the_effects_of_the_graph_find_their_adapters_in_every_mode() -> None:
    for at in (settings(), settings(**KEYS), settings(newsproof_mode="simulated")):
        made = ports(at)
        provider = composition.snapshot_of(at).search_providers[0]
        search = Search(provider=provider, query="q", max_results=1, as_of=datetime.now(UTC))
        model = CallModel(
            task="t", tier="heavy", prompt_name="p", prompt_version="1", prompt_hash="0", system="", parts=()
        )
        assert made.of(search).mode == made.of(model).mode == at.mode
