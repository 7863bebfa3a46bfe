"""Kafka away: the service starts all the same and says so, and open streams go on when it is back."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.embedded.kafka.server import EmbeddedKafka
from tests.newsproof.signal_samples import signal, write_signals
from tests.newsproof.web.conftest import Serving
from tests.newsproof.web.reading import streaming
from tests.streams.world import World


async def test_a_service_that_starts_without_kafka_says_so(serving: Serving, world: World) -> None:
    async with serving(kafka_bootstrap_servers="127.0.0.1:9") as http:

        async def away() -> bool:
            return bool((await http.get("/api/v1/status")).json()["kafka"] == "away")

        await world.until(away, 60)
        assert (await http.get("/readyz")).json()["waits_for"] == {"kafka": "it does not respond"}
        for path in ("/api/v1/signals", "/api/v1/research/chat/00000000-0000-4000-8000-000000000000"):
            refused = await http.get(path)
            assert (refused.status_code, set(refused.json())) == (503, {"error", "do"})
        assert (await http.get("/")).status_code == 200


@pytest.mark.slow
async def test_an_open_stream_goes_on_when_kafka_is_back_and_nothing_is_lost(serving: Serving, tmp_path: Path) -> None:
    server = EmbeddedKafka(tmp_path / "kafka")
    await server.start()
    try:
        address = server.address
        async with World.made(address, "outage.", tmp_path / "slots", partitions=2) as world:
            at = {"kafka_bootstrap_servers": server.bootstrap, "newsproof_topic_prefix": world.topics.prefix,
                  "kafka_embedded_password_file": address.password_file}  # fmt: skip
            async with serving(**at) as http, streaming(http, "/api/v1/stream") as stream:
                await stream.connected()
                await write_signals(address, world.topics, signal("before"))
                assert (await stream.until("signal"))[-1].data["data"]["summary"] == "before"
                server.kill()
                await server.start()
                await write_signals(address, world.topics, signal("after"))
                assert (await stream.until("signal"))[-1].data["data"]["summary"] == "after"

                async def well() -> bool:
                    return bool((await http.get("/api/v1/status")).json()["kafka"] == "ok")

                await world.until(well, 60)
    finally:
        await server.stop()
