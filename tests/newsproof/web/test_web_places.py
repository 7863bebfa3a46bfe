"""ConnectionLimit of event streams: taken before anything is paid for, and never all by one client."""

from __future__ import annotations

import pytest

from newsproof.web.limits import ConnectionLimit
from newsproof.web.responses import Refused
from tests.newsproof.web.conftest import Serving
from tests.newsproof.web.reading import streaming
from tests.newsproof.web.test_web_research import CHAT
from tests.streams.world import World


async def test_a_question_that_gets_no_place_is_not_asked(world: World, serving: Serving) -> None:
    async with serving(web_max_streams=1) as http, streaming(http, "/api/v1/stream") as stream:
        await stream.connected()
        refused = await http.post(CHAT, json={"message": "Is Bitcoin cheap?"})
        assert (refused.status_code, set(refused.json())) == (503, {"error", "do"})
        assert await world.records(world.topics.research) == []


def test_one_client_leaves_places_to_others_and_gives_back_what_it_has_once() -> None:
    places = ConnectionLimit(3, 2)
    first, _ = places.take("a"), places.take("a")
    with pytest.raises(Refused, match="from this address"):
        places.take("a")
    places.take("b")
    with pytest.raises(Refused, match="open on this server"):
        places.take("c")
    first()
    first()
    assert len(places) == 2
    places.take("a")
