"""The API of watches."""

from __future__ import annotations

from tests.newsproof.web.conftest import Serving

WATCHES = "/api/v1/watches"


async def test_a_watch_is_set_listed_paused_resumed_and_ended_and_what_cannot_be_is_refused(serving: Serving) -> None:
    async with serving(watch_daily_limit=1) as http:
        for body, status, told in (
            ({"subject": "DeepSeek"}, 400, "either at an interval or on news"),
            ({"subject": "DeepSeek", "every": "10m"}, 400, "too often"),
            ({"subject": ""}, 400, "subject"),
        ):
            refused = await http.post(WATCHES, json=body)
            assert (refused.status_code, told in refused.text) == (status, True), refused.text
        made = await http.post(WATCHES, json={"subject": "Monitor DeepSeek's latest developments", "every": "6h"})
        assert made.status_code == 201, made.text
        watch = made.json()
        assert (watch["state"], watch["every_s"], watch["source"]) == ("active", 21_600, "watch:deepseek")
        again = await http.post(WATCHES, json={"subject": "DeepSeek", "on_news": True})
        assert (again.status_code, "is already watched" in again.json()["error"]) == (409, True)
        for command, status, state in (
            ("pause", 200, "paused"),
            ("pause", 409, None),
            ("resume", 200, "active"),
            ("end", 200, "ended"),
            ("end", 409, None),
        ):
            said = await http.post(f"{WATCHES}/{watch['id']}/{command}")
            assert (said.status_code, said.json().get("state")) == (status, state), said.text
        nobody = await http.post(f"{WATCHES}/{'0' * 8}-0000-0000-0000-{'0' * 12}/pause")
        assert (nobody.status_code, nobody.json()["do"]) == (404, "see GET /api/v1/watches for all watches")
        (listed,) = (await http.get(WATCHES)).json()["items"]
        assert (listed["id"], listed["state"], listed["last_result"]) == (watch["id"], "ended", None)
