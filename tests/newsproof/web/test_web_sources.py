"""Sources over the API: what listeners wrote into the log, read on from where the last reading ended, as JSON and as CSV."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from infra.listeners.fetching import Fetcher
from streams.listening.listener import Listener, Options
from tests.infra.fakes.server import Say
from tests.infra.fakes.sources import Newsroom, recent
from tests.newsproof.web.conftest import Serving
from tests.streams.world import World

ROW = '[[source]]\nid = "{id}"\nkind = "feed"\nurl = "{url}"\nprivate = true\nrobots = false\n'


async def test_the_list_is_what_the_log_says_with_what_to_do_and_is_read_on(
    world: World, serving: Serving, tmp_path: Path
) -> None:
    fetcher, newest = Fetcher(), [recent(1, age_s=30), recent(2, age_s=90)]
    async with Newsroom(mine=newest) as room, serving() as http:
        room._routes = {"/gone": [Say(status=404)]}
        sources = [room.source("mine"), room.source("gone")]
        (tmp_path / "sources.toml").write_text("".join(ROW.format(id=one.id, url=one.url) for one in sources))
        before = (await http.get("/api/v1/sources")).json()
        assert (before["listens"], before["has_key"]) == (False, False) and len(before["items"]) > 40
        assert {one["state"] for one in before["items"]} == {"left out", "never looked at", "off"}
        for more in ([], [recent(3, age_s=60)]):
            room.feeds = {"mine": [*newest, *more]}
            await Listener(world.address, world.topics, lambda: sources, fetcher, Options(jitter=0), b"key").once()
            found = {one["id"]: one for one in (await http.get("/api/v1/sources")).json()["items"]}
            mine, gone = found["mine"], found["gone"]
            assert (mine["state"], mine["new"], mine["why"]) == ("ok", 2 + len(more), "")
            assert 29 <= mine["lag_p50_s"] <= mine["lag_p95_s"] < 300 and mine["looked_at"]
            assert (gone["state"], gone["reason"]) == ("backing_off", "not_found")
            assert gone["why"] == "it returned status 404" and "correct `url` in sources.toml" in gone["do"]
        answered = await http.get("/api/v1/sources?state=backing_off&format=csv")
        assert answered.headers["content-disposition"] == 'attachment; filename="newsproof-sources.csv"'
        assert [row["id"] for row in csv.DictReader(io.StringIO(answered.text))] == ["gone"]
        (tmp_path / "sources.toml").write_text("[[")
        wrong = await http.get("/api/v1/sources")
        assert wrong.status_code == 409 and "is not a list of sources" in wrong.json()["do"]
    await fetcher.close()
