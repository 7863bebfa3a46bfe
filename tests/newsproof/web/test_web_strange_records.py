"""Records in the log that no code of ours would write: the service passes them by, and goes on."""

from __future__ import annotations

from msgspec.structs import replace

from schemas import envelope as wire
from schemas import events as ev
from schemas.ids import LIVE_RUN, uuid5
from streams.clock import utc_now
from tests.newsproof.web.conftest import Serving
from tests.newsproof.web.reading import streaming
from tests.newsproof.web.test_web_live import open_case, until_ready
from tests.streams.records import DROPPED, TRIAGED, after, opening, write
from tests.streams.world import World


async def open_in_no_language(world: World, number: int) -> str:
    """An opening whose language is none that there is; everything else is as intake writes it."""
    case, _, value, headers = opening(number)
    env = wire.read_envelope(headers)
    event = replace(wire.decode(env.type, env.version, value), language="xx")  # type: ignore[type-var]
    opened = uuid5("opening", LIVE_RUN, case)
    _, value, headers = wire.encode(event, id=opened, case_id=case, causation_id=None, run_id=LIVE_RUN, time=utc_now())
    await write(world, case, value, headers)
    return case


async def test_a_record_that_cannot_be_told_ends_neither_the_service_nor_its_next_start(
    world: World, serving: Serving
) -> None:
    async with serving() as http, streaming(http, "/api/v1/stream") as stream:
        await stream.connected()
        await open_case(world, 1, ev.StepStarted(step="renamed", crashes=1))
        await open_in_no_language(world, 2)
        last = await open_case(world, 3, TRIAGED, DROPPED)
        while (one := await stream.next()) is not None and one.data["data"].get("state") != "ended":
            pass
        assert one is not None and one.data["data"]["case_id"] == last
    async with serving() as again:
        await until_ready(again, world)
        listed = (await again.get("/api/v1/cases")).json()["items"]
        assert last in {one["case_id"] for one in listed}
