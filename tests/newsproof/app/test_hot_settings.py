"""Settings that change while workers run: adapters first, then new cases; and nothing at all where the change cannot be."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from infra.clickhouse.client import connect
from infra.offline.simulated import Simulated
from infra.settings import Settings
from newsproof.app import composition
from newsproof.app.processes.hot_settings import HOT, HotSettings, hot_file, overlaid
from schemas.config import Snapshot
from schemas.errors import ConfigError, TransientError

KEYS = {"gemini_api_key": "g-key", "tavily_api_key": "t-key", "bocha_api_key": "b-key"}


def settings(folder: Path, **values: Any) -> Settings:
    given: dict[str, Any] = {"_env_file": None, "newsproof_data_dir": folder, **KEYS, **values}
    return Settings(**given)


class Watched:
    """One worker's watch, with what it adopted."""

    def __init__(self, folder: Path, **values: Any) -> None:
        self.started = settings(folder, **values)
        self.file = hot_file(self.started)
        self.ports = composition.ports_of(self.started, connect("http://127.0.0.1:1", database="none"), Simulated())
        self.adopted: list[tuple[Snapshot, frozenset[str]]] = []
        self.fails, self.done = 0, asyncio.Event()
        in_force = overlaid(self.started, self.file)
        self.watch = HotSettings(self.started, in_force, self.ports, self._adopt, look_every_s=0.01, adopt_after_s=0.01)

    async def _adopt(self, snapshot: Snapshot) -> None:
        if self.fails:
            self.fails -= 1
            raise TransientError("Kafka is away")
        self.adopted.append((snapshot, frozenset(self.ports.search)))
        self.done.set()

    def write(self, *lines: str) -> None:
        self.file.write_text("\n".join(lines) + "\n", "utf-8")


async def test_new_cases_pin_the_new_list_after_its_adapters_are_there(tmp_path: Path) -> None:
    at = Watched(tmp_path)
    at.write("DEEP_ANALYSIS_SEARCH_PROVIDER=tavily,bocha", "TOOL_SCRAPE_ENABLED=true")
    assert await at.watch.look()
    ((snapshot, adapters),) = at.adopted
    assert snapshot.search_providers == ("bocha", "tavily") and snapshot.tool_scrape_enabled
    assert adapters == {"bocha", "tavily"}
    await at.ports.close()


async def test_an_adapter_whose_settings_stay_is_kept_and_a_dropped_one_still_answers_old_cases(tmp_path: Path) -> None:
    at = Watched(tmp_path, deep_analysis_search_provider="tavily,arxiv")
    before = dict(at.ports.search)
    at.write("DEEP_ANALYSIS_SEARCH_PROVIDER=arxiv,bocha", "BOCHA_API_KEY=another")
    await at.watch.look()
    assert at.adopted[0][0].search_providers == ("bocha", "arxiv")
    assert at.ports.search["tavily"] is before["tavily"] and at.ports.search["arxiv"] is before["arxiv"]
    first = at.ports.search["bocha"]
    at.write("DEEP_ANALYSIS_SEARCH_PROVIDER=arxiv,bocha", "BOCHA_API_KEY=a-third")
    await at.watch.look()
    assert at.ports.search["bocha"] is not first
    await at.ports.close()


async def test_a_file_that_goes_away_gives_back_the_settings_of_the_start(tmp_path: Path) -> None:
    at = Watched(tmp_path)
    at.write("DEEP_ANALYSIS_SEARCH_PROVIDER=bocha")
    await at.watch.look()
    at.file.unlink()
    await at.watch.look()
    assert [one.search_providers for one, _ in at.adopted] == [("bocha",), ("bocha", "tavily")]
    assert at.adopted[1][0].config_hash == composition.snapshot_of(at.started).config_hash
    await at.ports.close()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("DEEP_ANALYSIS_SEARCH_PROVIDER=altavista", "altavista"),
        ("DEEP_ANALYSIS_SEARCH_PROVIDER=ragflow", "RAGFLOW_ENDPOINT"),
        ("KAFKA_BOOTSTRAP_SERVERS=elsewhere:9092", "KAFKA_BOOTSTRAP_SERVERS"),
        ("NEWSPROOF_MODE=offline", "NEWSPROOF_MODE"),
        ("SEARCH_MAX_RESULTS=many", "SEARCH_MAX_RESULTS"),
        ("BOCHA_BASE_URL=bocha\nDEEP_ANALYSIS_SEARCH_PROVIDER=bocha", "BOCHA_BASE_URL"),
    ],
)
async def test_a_change_that_cannot_be_changes_nothing_and_says_why(tmp_path: Path, line: str, says: str) -> None:
    at = Watched(tmp_path)
    at.write(line)
    before = dict(at.ports.search)
    with capture_logs() as logs:
        assert await at.watch.look()
    assert at.adopted == [] and at.ports.search == before
    assert [(one["event"], says in one["error"]) for one in logs] == [("hot_settings_refused", True)]
    await at.ports.close()


async def test_the_watch_sees_a_change_and_tries_again_until_it_is_adopted(tmp_path: Path) -> None:
    at = Watched(tmp_path)
    at.fails = 2
    running = asyncio.create_task(at.watch.run())
    at.write("SEARCH_MAX_RESULTS=7")
    await asyncio.wait_for(at.done.wait(), 60)
    running.cancel()
    assert at.adopted[0][0].search_max_results == 7 and at.fails == 0
    await at.ports.close()


def test_what_nobody_set_stays_unset_beside_a_file(tmp_path: Path) -> None:
    started = settings(tmp_path, tavily_api_key=None, bocha_api_key=None)
    (tmp_path / "hot.env").write_text("SEARCH_MAX_RESULTS=7\n", "utf-8")
    assert composition.snapshot_of(overlaid(started, tmp_path / "hot.env")).tool_scrape_enabled
    (tmp_path / "hot.env").write_text("TOOL_SCRAPE_ENABLED=false\n", "utf-8")
    assert not composition.snapshot_of(overlaid(started, tmp_path / "hot.env")).tool_scrape_enabled


def test_what_is_wrong_in_the_file_at_the_start_refuses_the_start(tmp_path: Path) -> None:
    (tmp_path / "hot.env").write_text("WORKER_SLOT=2\n", "utf-8")
    with pytest.raises(ConfigError, match="WORKER_SLOT"):
        overlaid(settings(tmp_path), tmp_path / "hot.env")
    assert {"deep_analysis_search_provider", "bocha_api_key", "tool_scrape_enabled"} <= HOT
