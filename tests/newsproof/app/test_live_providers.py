"""Live search, pages and market data: which are usable with which settings, and what doctor says of the others."""

from __future__ import annotations

from typing import Any

import pytest

from agents.planning.providers import providers_of
from infra.clickhouse.client import connect
from infra.offline.simulated import Simulated
from infra.settings import Settings
from newsproof.app import composition
from newsproof.cli.operate.doctor import _pages, _search_providers, _search_roles
from newsproof.cli.operate.live_calls import Check
from schemas.config import Snapshot
from schemas.effects import FetchMarket, Scrape
from schemas.errors import ConfigError
from tests.infra.fakes.tavily import AS_OF

RAGFLOW = {"ragflow_endpoint": "http://ragflow:9380", "ragflow_api_key": "r-key", "ragflow_dataset_id": "d1, d2"}
BOCHA = {"bocha_api_key": "b-key"}
TAVILY = {"tavily_api_key": "t-key"}
ALL = "arxiv, tavily,Bocha,ragflow"


def settings(**values: Any) -> Settings:
    given = {"_env_file": None, "gemini_api_key": "g-key", "deep_analysis_search_provider": ALL, **values}
    return Settings(**given)


@pytest.mark.parametrize(
    ("values", "usable"),
    [
        ({**RAGFLOW, **BOCHA, **TAVILY}, ("ragflow", "bocha", "tavily", "arxiv")),
        ({**BOCHA, **TAVILY}, ("bocha", "tavily", "arxiv")),
        ({**BOCHA, **TAVILY, "bocha_enabled": False}, ("tavily", "arxiv")),
        ({**RAGFLOW, "ragflow_dataset_id": " "}, ("arxiv",)),
        ({**BOCHA, **TAVILY, "deep_analysis_search_provider": "bocha"}, ("bocha",)),
    ],
)
async def test_the_usable_providers_of_the_list_are_asked_in_order_of_priority(
    values: dict[str, Any], usable: tuple[str, ...]
) -> None:
    at = settings(**values)
    composition.refuse_unusable(at)
    assert composition.snapshot_of(at).search_providers == usable
    ports = composition.ports_of(at, connect("http://127.0.0.1:1", database="none"), Simulated())
    assert tuple(ports.search) == usable
    await ports.close()


def test_without_any_usable_provider_each_listed_one_is_named_with_what_it_lacks() -> None:
    at = settings(deep_analysis_search_provider="bocha,ragflow")
    with pytest.raises(ConfigError, match=r"bocha: set BOCHA_API_KEY.*ragflow: set RAGFLOW_ENDPOINT, RAGFLOW_API_KEY"):
        composition.refuse_unusable(at)


@pytest.mark.parametrize(
    ("values", "setting"),
    [
        ({**TAVILY, "scrape_proxies": "proxy:1"}, "SCRAPE_PROXIES"),
        ({**TAVILY, "fred_base_url": "fred"}, "FRED_BASE_URL"),
        ({**TAVILY, "coinbase_base_url": "ftp://x"}, "COINBASE_BASE_URL"),
        ({**TAVILY, "arxiv_base_url": "arxiv"}, "ARXIV_BASE_URL"),
        ({**RAGFLOW, "ragflow_endpoint": "ragflow:9380"}, "RAGFLOW_ENDPOINT"),
        ({"bocha_api_key": "two words"}, "BOCHA_API_KEY"),
    ],
)
def test_an_address_that_cannot_be_one_is_refused_before_anything_starts(values: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigError, match=setting):
        composition.refuse_unusable(settings(**values))


async def test_every_tool_can_be_switched_on_in_live_mode() -> None:
    tools = {f"tool_{name}_enabled": True for name in ("scrape", "price", "macro", "onchain")}
    at = settings(**TAVILY, **tools)
    composition.refuse_unusable(at)
    ports = composition.ports_of(at, connect("http://127.0.0.1:1", database="none"), Simulated())
    assert ports.of(Scrape(url="https://example.com/")).provider == "web"
    assert ports.of(FetchMarket(kind="price", asset="BTC", as_of=AS_OF)).provider == "market"
    await ports.close()


@pytest.mark.parametrize(("mode", "refused"), [("offline", "TOOL_PRICE_ENABLED"), ("simulated", "TOOL_SCRAPE_ENABLED")])
def test_a_tool_without_a_source_in_its_mode_is_refused_by_name(mode: str, refused: str) -> None:
    at = settings(newsproof_mode=mode, tool_price_enabled=mode == "offline", tool_scrape_enabled=True)
    with pytest.raises(ConfigError, match=refused):
        composition.refuse_unusable(at)


def test_doctor_says_of_each_provider_whether_it_is_asked_and_what_it_lacks() -> None:
    checks = _search_providers(settings(**TAVILY, deep_analysis_search_provider="tavily,bocha"))
    assert [(c.name.split(",")[0], c.state, c.found, c.do) for c in checks] == [
        ("search (ragflow", "note", "not configured", "set RAGFLOW_ENDPOINT, RAGFLOW_API_KEY, RAGFLOW_DATASET_ID"),
        ("search (bocha", "note", "listed, but skipped", "set BOCHA_API_KEY (https://open.bochaai.com)"),
        ("search (tavily", "ok", "in use", ""),
        ("search (searxng", "note", "not configured", "set SEARXNG_URL, the address of an instance of your own"),
        ("search (feeds", "ok", "configured, not listed", "add feeds to DEEP_ANALYSIS_SEARCH_PROVIDER to use it"),
        ("search (gdelt", "ok", "configured, not listed", "add gdelt to DEEP_ANALYSIS_SEARCH_PROVIDER to use it"),
        ("search (arxiv", "ok", "configured, not listed", "add arxiv to DEEP_ANALYSIS_SEARCH_PROVIDER to use it"),
    ]
    off = _search_providers(settings(**BOCHA, bocha_enabled=False))
    assert off[1].do == "set BOCHA_ENABLED=true"


def test_which_providers_are_asked_topic_by_topic_is_pinned() -> None:
    at = settings(**TAVILY, **BOCHA, searxng_url="http://127.0.0.1:8888", deep_analysis_search_provider="")
    snapshot = composition.snapshot_of(at)
    assert snapshot.search_providers == ("bocha", "tavily", "searxng")
    assert snapshot.search_by_topic == ("tavily", "searxng")
    assert composition.snapshot_of(settings(newsproof_mode="offline")).search_by_topic == ()


def test_what_bills_each_request_and_whose_news_is_trusted_is_pinned() -> None:
    at = settings(
        **TAVILY, **BOCHA, deep_analysis_search_provider="bocha,tavily,gdelt", trusted_sources=" desk, me,desk"
    )
    snapshot = composition.snapshot_of(at)
    assert (snapshot.search_billed, snapshot.search_requests_per_message) == (("bocha", "tavily"), 1)
    assert snapshot.trusted_sources == ("desk", "me")
    plain = composition.snapshot_of(settings(newsproof_mode="offline"))
    assert (plain.search_billed, plain.trusted_sources) == ((), ())
    assert (Snapshot().search_requests_per_message, Snapshot().trusted_sources) == (0, None), "as logs of before"


def test_the_bounds_of_quality_control_are_pinned_for_the_providers_that_are_asked() -> None:
    at = settings(**TAVILY, deep_analysis_search_provider="tavily,gdelt,arxiv")
    snapshot = composition.snapshot_of(at)
    assert snapshot.quality_floors == {"tavily": 0.5, "gdelt": 0.7, "arxiv": 0.7}
    assert snapshot.quality_widths == {"tavily": 50, "gdelt": 20, "arxiv": 50}
    other = settings(**TAVILY, quality_floor="0.9", quality_min_width=" 80 , tavily = 30", quality_keep=4)
    assert composition.snapshot_of(other).quality_floors["tavily"] == 0.9
    assert composition.snapshot_of(other).quality_widths["tavily"] == 30
    assert composition.snapshot_of(other).quality_keep == 4
    offline = composition.snapshot_of(settings(newsproof_mode="offline"))
    assert (offline.quality_floors, offline.quality_widths, offline.quality_min_relevance) == ({}, {}, 0.6)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"quality_floor": "tavily=0.5"}, "QUALITY_FLOOR"),
        ({"quality_floor": "0.5,altavista=0.5"}, "altavista"),
        ({"quality_floor": "0.5,gdelt=1.2"}, "from 0 to 1"),
        ({"quality_min_width": "50,gdelt"}, "QUALITY_MIN_WIDTH"),
        ({"quality_min_width": "nan"}, "QUALITY_MIN_WIDTH"),
    ],
)
def test_bounds_that_cannot_be_are_refused_by_name(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        composition.refuse_unusable(settings(**TAVILY, **values))


def test_doctor_says_that_gdelt_is_asked_because_no_key_is_set() -> None:
    def gdelt(**values: Any) -> Check:
        return next(
            c for c in _search_providers(settings(deep_analysis_search_provider="", **values)) if "gdelt" in c.name
        )

    alone = gdelt()
    assert (alone.state, alone.found) == ("note", "in use because no search key is set; the best pages are opened")
    assert "TAVILY_API_KEY" in alone.do
    assert "only titles are judged: TOOL_SCRAPE_ENABLED=false" in gdelt(tool_scrape_enabled=False).found
    assert gdelt(**TAVILY).found == "configured, not listed"


@pytest.mark.parametrize(
    ("values", "noted"),
    [
        (TAVILY, True),
        ({**TAVILY, "tool_scrape_enabled": False}, False),
        ({**TAVILY, "tool_scrape_enabled": True}, False),
        ({"deep_analysis_search_provider": "gdelt"}, False),
        ({"deep_analysis_search_provider": "tavily"}, False),
        ({**TAVILY, "newsproof_mode": "offline"}, False),
    ],
)
def test_doctor_says_where_official_pages_stay_without_a_date(values: dict[str, Any], noted: bool) -> None:
    assert [c.name for c in _pages(settings(**values))] == (["pages"] if noted else [])


def test_doctor_names_the_role_that_no_event_reaches() -> None:
    (check,) = _search_roles(settings(newsproof_mode="offline"))
    assert (check.name, check.state, check.found) == ("search role desk_notes", "note", "no event uses it")
    assert check.do.endswith("SEARCH_ROLES=event:governance=desk_notes")
    assert _search_roles(settings(newsproof_mode="offline", search_roles="event:governance=desk_notes")) == []


@pytest.mark.parametrize("mode", ["live", "offline"])
def test_roles_can_be_set_and_are_pinned_by_the_cases(mode: str) -> None:
    roles = "verification=ragflow|tavily|arxiv, event:regulation=protocol_research, papers=arxiv, event:other=papers"
    given = {**TAVILY, "newsproof_mode": mode, "deep_analysis_search_provider": ""}
    snapshot = composition.snapshot_of(settings(search_roles=roles, **given))
    assert snapshot.tables.search_roles["verification"] == ("ragflow", "tavily", "arxiv")
    if mode == "live":
        assert providers_of(snapshot, "hack") == ("tavily", "arxiv")
        assert (providers_of(snapshot, "other"), providers_of(snapshot, "regulation")) == (
            ("arxiv",),
            ("tavily", "arxiv"),
        )
    unset = composition.snapshot_of(settings(**given))
    assert (unset.config_hash == snapshot.config_hash, "arxiv" in unset.search_providers) == (False, False)


@pytest.mark.parametrize(
    ("roles", "said"),
    [
        ("verification=altavista", "verification=altavista"),
        ("tavily", "write role=provider"),
        ("event:hack=papers", "gives event:hack the role papers, which does not exist"),
    ],
)
def test_a_role_that_cannot_be_is_refused_by_name(roles: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        composition.refuse_unusable(settings(search_roles=roles, **TAVILY))


def test_a_provider_named_for_a_role_does_not_stand_for_the_web() -> None:
    at = settings(deep_analysis_search_provider="", search_roles="verification=gdelt|arxiv")
    assert composition.snapshot_of(at).search_providers == ("gdelt", "arxiv")
    assert composition.search_in_words(at).startswith("gdelt, arxiv because no search key is set")
