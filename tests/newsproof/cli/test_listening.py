"""`newsproof sources` and `newsproof listen`: the operator's own file, what a look shows, and what the listener's process does."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from infra.embedded.child import free_ports
from infra.kafka.topics import KafkaAddress, ensure_topics
from infra.listeners.mark import keys_at_hand
from infra.offline.newsroom.wire import rss
from infra.settings import load_settings
from newsproof.app import exits
from newsproof.app.processes.listening import Sources, Webhooks, run_listener
from newsproof.app.processes.supervisor import _services
from schemas.errors import ConfigError
from schemas.news import is_marked
from schemas.topics import Topics, partition_of
from streams.journal.log import KafkaLog
from streams.reputation.reputation_topic import read_reputations, write_reputations
from tests.infra.fakes.sources import news_in, recent
from tests.infra.fakes.webhooks import SECRET, signed
from tests.newsproof.command import invoked, on_log
from tests.streams.records import opening


class Quiet(SimpleHTTPRequestHandler):
    """A web server's files, without a log."""

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "feed.xml").write_bytes(rss(recent(1), recent(2, age_s=7200)))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


@pytest.fixture
def newsproof(tmp_path: Path) -> Any:
    def call(*arguments: str, **env: str) -> tuple[int, str]:
        done = invoked("--data-dir", str(tmp_path / "data"), *arguments, cwd=tmp_path, env=env)
        return done.returncode, done.stdout + done.stderr

    return call


def documents(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def test_a_feed_is_added_in_four_lines_looked_at_and_muted(newsproof: Any, site: str, tmp_path: Path) -> None:
    assert newsproof("sources", "add", f"{site}/feed.xml", "--id", "mine", "--private")[0] == exits.OK
    assert newsproof("sources", "add", f"{site}/gone.xml", "--id", "gone", "--private")[0] == exits.OK
    rows = (tmp_path / "data" / "sources.toml").read_text().split("[[source]]")[1:]
    assert [row.strip().splitlines()[0] for row in rows] == ['id = "mine"', 'id = "gone"']

    status, output = newsproof("sources", "check", "mine", "gone", "--json")
    looked = {one["source"]: one for one in documents(output)}
    assert status == exits.FINDING
    assert (looked["mine"]["state"], looked["mine"]["items"]) == ("ok", 2)
    assert (looked["gone"]["state"], looked["gone"]["why"]) == ("backing_off", "it returned status 404")
    assert "correct `url` in sources.toml" in looked["gone"]["do"]
    output = newsproof("sources", "add", "https://nowhere.invalid/feed", "--id", "typo")[1]
    assert "typo was added and is on" in output and "nowhere.invalid cannot be resolved" in output
    (typo,) = documents(newsproof("sources", "check", "typo", "--json")[1])
    assert typo["do"] == "check the host in `url` and your network", "no listener retries a check"
    status, output = newsproof("listen", "--dry-run", "--source", "mine")
    assert status == exits.OK and "A first poll would publish 1 of 2 items" in output
    assert "A case that adds nothing to a confirmed or likely signal ends there" in output
    assert [
        one["external_id"]
        for one in documents(newsproof("listen", "--dry-run", "--source", "mine", "--json", "--backfill", "3h")[1])
    ] == ["n1", "n2"]

    assert newsproof("sources", "mute", "mine")[0] == exits.OK
    listed = {one["id"]: one for one in documents(newsproof("sources", "--json")[1])}
    assert (listed["mine"]["on"], listed["gone"]["on"], listed["gone"]["state"]) == (False, True, "never looked at")
    assert listed["sec-press"]["state"] == "left out" and "LISTENER_CONTACT" in listed["sec-press"]["why"]
    assert newsproof("sources", "mute", "mine", "--off")[0] == exits.OK
    (shown,) = documents(newsproof("sources", "show", "mine", "--json")[1])
    assert shown["on"] and shown["url"] == f"{site}/feed.xml"

    file = tmp_path / "data" / "sources.toml"
    file.write_text("# mine\n" + file.read_text())
    assert newsproof("sources", "add", f"{site}/other.xml", "--id", "mine", "--private")[1].startswith(
        "mine was changed"
    )
    (shown,) = documents(newsproof("sources", "show", "mine", "--json")[1])
    assert shown["on"] and shown["url"] == f"{site}/other.xml"
    assert newsproof("sources", "mute", "decrypt")[0] == newsproof("sources", "remove", "mine")[0] == exits.OK
    assert "is as built in again" in newsproof("sources", "remove", "decrypt")[1]
    assert file.read_text().startswith("# mine\n") and 'id = "mine"' not in file.read_text()
    assert "there is no source mine" in newsproof("sources", "remove", "mine")[1]
    assert {one["id"]: one for one in documents(newsproof("sources", "--json")[1])}["gone"]["on"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("sources", "show", "nowhere"), "there is no source nowhere"),
        (("sources", "mute", "nowhere"), "there is no source nowhere"),
        (("sources", "add", "https://example.com/feed", "--id", "decrypt"), "a built-in source is called decrypt"),
        (("sources", "add", "http://10.1.2.3/feed", "--id", "mine"), "blocked: http://10.1.2.3/feed"),
        (("sources", "add", "https://rss.lan/feed"), "add --private if it is in your own network"),
        (("sources", "remove", "decrypt"), "is built in and unchanged"),
        (("sources", "add", "example.com"), "is not an address"),
        (("sources", "add", "ftp://example.com/x"), "is not an address"),
        (("sources", "add", "https://example.com/feed", "--id", "A B"), "this is not a valid source"),
        (("listen", "--backfill", "soon", "--once"), "write a number and s, m, h or d, such as 90m, 24h or 3d"),
        (("listen", "--check", "--source", "nowhere"), "there is no source nowhere"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(newsproof: Any, arguments: tuple[str, ...], says: str) -> None:
    status, output = newsproof(*arguments)
    assert status != exits.OK and says in output


def test_the_list_is_read_anew_when_the_file_changes_and_a_wrong_change_keeps_the_one_before(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('[[source]]\nid = "mine"\nkind = "feed"\nurl = "https://example.com/feed"\n')
    sources = Sources(load_settings(_env_file=None, listener_sources=file), ["mine"])
    assert [one.every_s for one in sources()] == [60]
    file.write_text(file.read_text() + "every_s = 5\n")
    assert [one.every_s for one in sources()] == [5]
    file.write_text("[[")
    assert [one.every_s for one in sources()] == [5]
    file.unlink()
    assert [one.every_s for one in sources()] == [5]
    with pytest.raises(ConfigError, match="but this file does not exist"):
        Sources(load_settings(_env_file=None, listener_sources=file))


def test_up_starts_the_listener_only_when_it_is_asked_to(tmp_path: Path) -> None:
    class Page:
        def fileno(self) -> int:
            return 7

    for listen in (False, True):
        settings = load_settings(_env_file=None, newsproof_data_dir=tmp_path, listen=listen, metrics_port=9000)
        names = [one.name for one in _services(settings, 1, Page(), research=True)]  # type: ignore[arg-type]
        assert ("listener" in names) is listen
        assert "listener" not in [one.name for one in _services(settings, 1, None, research=True)]


def test_a_port_for_webhooks_without_a_secret_is_refused() -> None:
    settings = load_settings(_env_file=None, listener_webhook_port=0, kafka_bootstrap_servers="127.0.0.1:1")
    with pytest.raises(ConfigError, match="LISTENER_WEBHOOK_SECRET is not"):
        Webhooks(settings)


def test_one_look_publishes_and_the_list_says_what_came_of_it(
    newsproof: Any, site: str, address: KafkaAddress, topics: Topics
) -> None:
    newsproof = partial(newsproof, **on_log(address, topics, partitions=4))
    newsproof("sources", "add", f"{site}/feed.xml", "--id", "mine", "--private")
    asyncio.run(opened(address, topics, 20, partitions=4))
    asyncio.run(write_reputations(KafkaLog(address), address, topics, datetime.now(UTC)))
    status, output = newsproof("listen", "--once", "--source", "mine", "--json")
    (looked,) = documents(output)
    polled = {"source": "mine", "state": "ok", "items": {"new": 1, "recorded": 1}, "why": "", "do": ""}
    assert (status, looked) == (exits.OK, polled)
    (row,) = [one for one in documents(newsproof("sources", "--json")[1]) if one["id"] == "mine"]
    assert (row["state"], row["new"], row["looked_at"] is None) == ("ok", 1, False)

    (figures,) = documents(newsproof("sources", "reputation", "--json")[1])
    assert row["reputation"] == [figures | {"as_of": row["reputation"][0]["as_of"]}]
    assert (figures["source"], figures["stories"], figures["rated"], figures["copies"]["of"]) == ("mine", 20, True, 20)
    shown = [newsproof("sources", *command)[1] for command in (["list"], ["show", "mine"], ["reputation"])]
    for output, says in zip(
        shown, ("– first, 5 % retracted", "0 of 0 5 % (0 to 18), after the prior", "0 % (0 to 16)"), strict=True
    ):
        assert says in " ".join(output.split())


async def opened(address: KafkaAddress, topics: Topics, cases: int, *, partitions: int = 2) -> None:
    """Write the openings of so many cases of the source ``mine`` to the journal."""
    await ensure_topics(address, topics, partitions=partitions, replication=1)
    producer = address.producer()
    await producer.start()
    for number in range(cases):
        case, _, value, headers = opening(number, source="mine")
        await producer.send(topics.cases, value, partition=partition_of(case, partitions), headers=headers)
    await producer.stop()


async def test_the_process_listens_takes_webhooks_and_ends_in_order(
    site: str, address: KafkaAddress, topics: Topics, tmp_path: Path
) -> None:
    file, (port,) = tmp_path / "own.toml", free_ports(1)
    file.write_text(f'[[source]]\nid = "mine"\nkind = "feed"\nurl = "{site}/feed.xml"\nprivate = true\n')
    settings = load_settings(
        _env_file=None, listener_sources=file, listener_webhook_port=port, listener_webhook_secret=f"hooked={SECRET}",
        newsproof_data_dir=tmp_path, newsproof_topic_prefix=topics.prefix, topic_partitions=2, metrics_port=0,
        kafka_bootstrap_servers=address.bootstrap, kafka_embedded_password_file=address.password_file,
    )  # fmt: skip
    await opened(address, topics, 1)  # its figures are on the log as soon as somebody listens
    running = asyncio.create_task(run_listener(settings, only=["mine"]))
    body, answered = orjson.dumps({"text": "Exchange halts withdrawals", "id": 7}), None
    async with asyncio.timeout(60), httpx.AsyncClient(trust_env=False) as http:
        while answered is None:
            with suppress(httpx.ConnectError):
                answered = await http.post(f"http://127.0.0.1:{port}/hooks/hooked", content=body, headers=signed(body))
            await asyncio.sleep(0.05)
        while len(found := await news_in(address, topics)) < 2 or not await read_reputations(KafkaLog(address), topics):  # noqa: ASYNC110 - the log tells no event
            await asyncio.sleep(0.05)
    signal.raise_signal(signal.SIGTERM)
    await running
    assert answered.status_code == 202
    assert {(one.source, one.external_id) for one in found} == {("mine", "n1"), ("hooked", "7")}
    assert all(is_marked(one, keys_at_hand(settings)) for one in found), "by the key that the listener has made"
