"""Pages made to stall whoever reads them: the event loop goes on, and each ends as a page or as a refusal with a kind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import msgspec
import psutil
import pytest
from msgspec.structs import replace

from infra.http import guarded_client
from infra.landlock import NETWORK_SINCE, abi_version
from infra.pages import charsets
from infra.pages import reader_client as ours
from infra.pages.charsets import CODECS, codec_of, text_of
from infra.pages.markup import decoded
from infra.pages.reader_client import Reader
from infra.pages.reader_messages import LENGTH, PageRequest, RulesAnswer, RulesRequest
from infra.pages.rules import MAX_RULES, MAX_WILDCARDS, allowed_by
from schemas.effects import Failure, PageReply, Scrape
from schemas.errors import FailureKind, PermanentError, TransientError
from tests.infra.fakes.server import FakeServer, Say
from tests.infra.fakes.site import opened, page
from tests.infra.pages.hostile_pages import FULL, NO_CHARACTER_SETS, PAGES, PUNYCODE, PUNYCODE_PAGE, RULES

pytestmark = pytest.mark.security

MOST_S = 0.25
"""Of the processor, for one callback of the event loop."""
LIMIT_S = 1.0


@contextmanager
def longest_callback(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Yield a list of one number: the seconds of its thread's processor that the longest callback used so far."""
    longest, run = [0.0], asyncio.events.Handle._run  # type: ignore[attr-defined]

    def timed(handle: Any) -> None:
        began = time.thread_time()
        run(handle)
        longest[0] = max(longest[0], time.thread_time() - began)

    with monkeypatch.context() as patched:
        patched.setattr(asyncio.events.Handle, "_run", timed)
        gc.disable()  # a collection of all that this test process holds takes half a second, whatever the page
        try:
            yield longest
        finally:
            gc.enable()


def asked(body: bytes = b"<p>Withdrawals are paused.</p>", **more: Any) -> PageRequest:
    plain = PageRequest(
        body=body, content_type="text/html", status=200, url="https://e.example/a", readable=True, plain=False
    )
    return replace(plain, **more)


def test_326_bytes_of_punycode_are_read_at_once() -> None:
    assert len(PUNYCODE_PAGE) <= 339
    began = time.thread_time()
    assert decoded(PUNYCODE, "text/html; charset=punycode") == PUNYCODE.decode("ascii")
    assert time.thread_time() - began < MOST_S


@pytest.mark.parametrize("name", NO_CHARACTER_SETS, ids=lambda name: name[:20])
def test_what_is_no_character_set_of_the_web_is_not_believed(name: str) -> None:
    assert codec_of(name) is None
    said = "é \\u0041 +AEE- =41 4142"
    assert decoded(said.encode(), f"text/html; charset={name}") == said
    meta = f"<meta charset={name}>{said}"
    assert decoded(meta.encode(), "text/html") == meta


@pytest.mark.parametrize("codec", CODECS)
def test_every_character_set_is_decoded_in_linear_time(codec: str) -> None:
    # UTF-16 has no fast way past lone surrogates: half a second for a whole page of them, in the process that reads.
    most = 2.0 if codec.startswith("utf_16") else MOST_S
    for value in (b"\xff", b"\x81", b"\xd8", b"\x1b$B", b"\xa5\xd2", b"a"):
        body = value * (FULL // len(value))
        text_of(body[:1000], codec)
        began = time.thread_time()
        text_of(body, codec)
        assert time.thread_time() - began < most, value


@pytest.mark.parametrize("codec", charsets._SINGLE_BYTE)
def test_the_fast_way_gives_the_characters_that_python_gives(codec: str) -> None:
    every = bytes(range(256))
    assert text_of(every, codec) == every.decode(codec, "replace")


@pytest.mark.parametrize("status", [200, 400, 500])
async def test_a_service_that_names_punycode_stalls_nothing(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    said = Say(PUNYCODE[:60_000], status=status, headers={"content-type": "text/plain; charset=punycode"})
    async with FakeServer(said) as server:
        with longest_callback(monkeypatch) as longest:
            http = guarded_client(server.url, timeout_s=30)
            response = await http.get(server.url)
            assert response.text == "b" * 60_000
            await http.aclose()
    assert longest[0] < MOST_S


@pytest.mark.slow
async def test_no_hostile_page_holds_the_loop_up(monkeypatch: pytest.MonkeyPatch) -> None:
    routes = {f"/{n}": make() for n, make in enumerate(PAGES.values())}
    took: dict[str, float] = {}
    kinds = set(get_args(FailureKind))
    async with opened(routes, timeout_s=2 * LIMIT_S) as (pages, site):
        for n, name in enumerate(PAGES):
            with longest_callback(monkeypatch) as longest:
                async with asyncio.timeout(2 * LIMIT_S + 5):
                    reply = (await pages.perform(Scrape(url=f"{site.url}/{n}"))).reply
            took[name] = longest[0]
            assert isinstance(reply, PageReply) or (isinstance(reply, Failure) and reply.kind in kinds), (name, reply)
            assert not (isinstance(reply, PageReply) and "root:" in reply.page.text), "it reads our files"
    assert {name: seconds for name, seconds in took.items() if seconds > MOST_S} == {}


async def test_no_rules_for_robots_hold_the_loop_up(monkeypatch: pytest.MonkeyPatch) -> None:
    far = "a" * 1900
    routes = {"/robots.txt": [Say(make()) for make in RULES.values()], f"/{far}": page()}
    took: dict[str, float] = {}
    async with opened(routes, timeout_s=2 * LIMIT_S) as (pages, site):
        for n, name in enumerate(RULES):
            with longest_callback(monkeypatch) as longest:
                reply = (await pages.perform(Scrape(url=f"http://host{n}.example.com:{site.port}/{far}"))).reply
            took[name] = longest[0]
            refused = isinstance(reply, Failure) and reply.kind in {"blocked", "timeout"}
            assert isinstance(reply, PageReply) or refused, (name, reply)
    assert {name: seconds for name, seconds in took.items() if seconds > MOST_S} == {}


@pytest.mark.parametrize(
    ("rules", "allowed"),
    [
        ("Disallow: /" + "*a" * MAX_WILDCARDS, True),
        ("Disallow: /" + "*a" * (MAX_WILDCARDS + 1), False),
        ("disalow /" + "*a" * (MAX_WILDCARDS + 1), False),
        ("Allow: /" + "*a" * (MAX_WILDCARDS + 1), False),
        ("User-agent: other\nDisallow: /" + "*a" * (MAX_WILDCARDS + 1), False),
        ("Disallow: /b # " + "*" * 20, True),
        ("Disallow: /b\n" * (MAX_RULES - 1), True),
        ("Disallow: /b\n" * MAX_RULES, False),
        ("Allow: /\x0b" * (MAX_RULES + 1), False),
        ("User-agent: b\n" * MAX_RULES, False),
        ("Sitemap: https://e.example/*\n" * (2 * MAX_RULES), True),
    ],
    ids=range(11),
)
def test_rules_that_nobody_means_let_nothing_be_opened(rules: str, allowed: bool) -> None:
    assert allowed_by(f"User-agent: *\n{rules}".encode(), "https://e.example/x") is allowed


# The process that reads


@contextlib.asynccontextmanager
async def reading(limit_s: float = 30.0, **more: Any) -> AsyncIterator[Reader]:
    reader = Reader(limit_s, **more)
    try:
        yield reader
    finally:
        await reader.close()


SLOW = asked(b"<p " + b" ".join(b"a%d=1" % n for n in range(200_000)) + b">" + b"paused")
"""libxml2 compares each attribute with all before."""


async def pid_of(reader: Reader) -> int:
    return (await reader._running()).pid


async def test_a_slow_page_is_killed_at_its_limit_and_those_that_wait_are_read_by_a_new_process() -> None:
    async with reading(limit_s=1.0) as reader:
        first = await pid_of(reader)
        slow = asyncio.create_task(reader.page(SLOW))
        waiting = [asyncio.create_task(reader.page(asked(b"<p>page %d</p>" % n))) for n in range(5)]
        with pytest.raises(PermanentError, match="takes longer than 1 s to read") as caught:
            await slow
        assert caught.value.kind == "timeout"
        assert [(told := await one).page and told.page.text for one in waiting] == [f"page {n}" for n in range(5)]
        assert await pid_of(reader) != first
        assert not alive(first)


async def test_a_page_that_is_given_up_leaves_no_answer_for_the_next() -> None:
    async with reading() as reader:
        first = await pid_of(reader)
        slow = asyncio.create_task(reader.page(SLOW))
        await until_busy(first)
        slow.cancel()
        told = await reader.page(asked(b"<p>the next</p>"))
        assert told.page is not None and told.page.text == "the next"
        # One that only waits for its turn costs nobody anything.
        second = await pid_of(reader)
        held, waits = reader.page(asked()), asyncio.create_task(reader.page(SLOW))
        waits.cancel()
        await held
        assert await pid_of(reader) == second


async def test_a_process_that_was_killed_between_two_pages_is_renewed() -> None:
    async with reading() as reader:
        process = await reader._running()
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()
        assert (await reader.page(asked())).page is not None


async def test_a_process_that_cannot_start_is_a_failure_that_may_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    async with reading() as reader:
        for python in ("/nowhere/python", "/bin/false"):
            monkeypatch.setattr(sys, "executable", python)
            with pytest.raises(TransientError, match="did not start"):
                await reader.page(asked())
        monkeypatch.undo()
        assert (await reader.page(asked())).page is not None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds a process's memory")
async def test_a_page_that_takes_too_much_memory_ends_the_process_and_is_left_out() -> None:
    async with reading(memory_bytes=130 * 1024 * 1024) as reader:
        with pytest.raises(PermanentError, match="too much memory") as caught:
            await reader.page(asked(b"a\n" * (FULL // 2), content_type="text/plain"))
        assert caught.value.kind == "invalid_output"
        assert (await reader.page(asked())).page is not None


async def test_a_close_blames_no_page_and_leaves_no_process() -> None:
    reader = Reader(30.0)
    pid = await pid_of(reader)
    in_flight = [asyncio.create_task(reader.page(one)) for one in (SLOW, asked(), asked())]
    await until_busy(pid)
    await reader.close()
    for one in in_flight:
        with pytest.raises(TransientError, match="closed") as caught:
            await one
        assert caught.value.kind == "internal"
    with pytest.raises(TransientError, match="closed"):
        await reader.page(asked())
    assert not alive(pid) and reader._process is None


async def test_a_close_while_the_process_starts_is_told_to_those_that_wait_for_it() -> None:
    reader = Reader(30.0)
    waiting = [asyncio.create_task(reader.page(asked())) for _ in range(2)]
    await asyncio.sleep(0)
    assert reader._process is not None
    await reader.close()
    for one in waiting:
        with pytest.raises(TransientError, match="closed"):
            await one
    assert reader._process is None


async def test_an_answer_that_is_none_of_ours_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with reading() as reader:
        other = msgspec.msgpack.encode(RulesAnswer(allowed=True))
        for said in (b"\x7f\xff\xff\xff" + b"x" * 100, LENGTH.pack(len(other)) + other):
            forged = asyncio.StreamReader()
            forged.feed_data(said)
            forged.feed_eof()
            monkeypatch.setattr(await reader._running(), "stdout", forged)
            with pytest.raises(PermanentError, match="ends the process"):
                await reader.page(asked())


async def test_the_process_is_given_no_key_and_no_session_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "secret-key")
    monkeypatch.setenv("SCRAPE_PROXIES", "http://me:password@127.0.0.1:1")
    async with reading() as reader:
        pid = await pid_of(reader)
        said = psutil.Process(pid).environ()
        assert set(said) <= {*ours._ENVIRONMENT, "PYTHONPATH", "LC_CTYPE", "__CF_USER_TEXT_ENCODING"}
        assert os.getsid(pid) == pid
        assert psutil.Process(pid).net_connections() == []


@pytest.mark.skipif(abi_version() < NETWORK_SINCE, reason="this kernel's Landlock knows no network, or there is none")
def test_the_process_writes_nowhere_and_opens_no_connection(tmp_path: Path) -> None:
    """The program of the process, with what a page might make of its parser in place of the reading."""
    program = (
        "import socket, subprocess\n"
        "from infra.pages import reader_process as ours\n"
        "from infra.pages.reader_messages import RulesAnswer\n"
        "def taken_over(asked):\n"
        "    for attack in (lambda: open(asked.url, 'w'), lambda: subprocess.run(['/bin/true']), lambda: socket.create_connection(('127.0.0.1', int(asked.rules)))):\n"
        "        try:\n"
        "            attack()\n"
        "            return RulesAnswer(allowed=True)\n"
        "        except PermissionError:\n"
        "            pass\n"
        "    return RulesAnswer(allowed=False)\n"
        "ours.answer = taken_over\n"
        "ours.main()\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        question = RulesRequest(rules=str(listener.getsockname()[1]).encode(), url=str(tmp_path / "written"))
        sent = msgspec.msgpack.encode(question)
        command = [sys.executable, "-c", program, "20", str(ours.MEMORY_BYTES)]
        sent = LENGTH.pack(len(sent)) + sent
        ended = subprocess.run(command, input=sent, capture_output=True, check=False, timeout=60, cwd=ours._PROJECT)
    assert ended.returncode == 0, ended.stderr.decode()
    told = ended.stdout.removeprefix(LENGTH.pack(0))
    assert msgspec.msgpack.decode(told[LENGTH.size :], type=RulesAnswer) == RulesAnswer(allowed=False)
    assert not (tmp_path / "written").exists()


async def test_nothing_runs_before_the_first_page_nor_after_the_end() -> None:
    async with opened({"/a": page()}) as (pages, site):
        assert pages._reader._process is None
        assert isinstance((await pages.perform(Scrape(url=f"{site.url}/a"))).reply, PageReply)
        pid = await pid_of(pages._reader)
    assert not alive(pid)
    reader = Reader(1.0)
    starting = asyncio.create_task(reader.page(asked()))
    await asyncio.sleep(0)
    await reader.close()
    await asyncio.gather(starting, return_exceptions=True)
    await reader.close()


@pytest.mark.slow
def test_the_process_ends_with_the_one_that_started_it() -> None:
    """Also while it reads: the kernel's alarm ends what no longer heeds its input."""
    program = (
        "import asyncio, os; from tests.infra.pages.test_hostile_pages import *\n"
        "async def main():\n"
        "    reader = Reader(1.0); pid = await pid_of(reader)\n"
        "    asyncio.create_task(reader.page(SLOW)); await until_busy(pid)\n"
        "    print(pid, flush=True); os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, timeout=120)
    pid = int(run.stdout)
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(timeout=60)
    assert not alive(pid)


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


async def until_busy(pid: int) -> None:
    """Wait until the process works at what it was given."""
    before = sum(psutil.Process(pid).cpu_times()[:2])
    while sum(psutil.Process(pid).cpu_times()[:2]) < before + 0.1:  # noqa: ASYNC110 - it cannot tell us
        await asyncio.sleep(0.01)
