"""The provider process of a chaos run: responds to model and search calls, counts each, and fails on command.

    python -m lab.chaos.provider --address-file FILE --calls-file FILE --latency SECONDS --seed N

One line per call: ``<number> <kind> <request hash>``, answered by ``<number> <status> <body>``. Calls of the research
flow have the kind ``research``, and are also counted separately. Lines that start with ``!`` are the harness's
commands: ``!fault <name> <share>`` (``!fault none 0`` ends it) and ``!count``. Every call that arrives is counted in
memory and its request hash is written to the calls file at once, so the count outlives any worker, and this process.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
from pathlib import Path

from newsproof.app.terminal import guard_output

FAULTS = ("timeout", "rate_limit", "unavailable", "garbage")
"""No response at all; 429 with Retry-After; 503; 200 with half a document."""
RETRY_AFTER_S = 0.3
_BODIES = {
    b"model": b'200 {"text":"chaos"}',
    b"search": b'200 {"results":[]}',
    b"research": b"200 {}",
    "rate_limit": b"429 %.1f" % RETRY_AFTER_S,
    "unavailable": b"503 away",
    "garbage": b'200 {"text":"ch',
}


class Provider:
    """State shared by all connections."""

    def __init__(self, calls_file: Path, latency_s: float, seed: int) -> None:
        self.latency_s = latency_s
        self.calls = self.research_calls = 0
        self.failed = 0
        self._fault, self._share = "none", 0.0
        self._random = random.Random(seed)
        self._fd = os.open(calls_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def answer(self, lines: list[bytes]) -> bytes:
        """Process the lines of one read; return the responses."""
        answers: list[bytes] = []
        asked: list[bytes] = []
        for line in lines:
            if line.startswith(b"!"):
                answers.append(self._obey(line.decode("ascii").split()))
                continue
            number, kind, request = line.split(b" ")
            asked.append(request)
            self.research_calls += kind == b"research"
            body = self._body(kind)
            if body is not None:
                answers.append(b"%s %s\n" % (number, body))
        self.calls += len(asked)
        if asked:
            os.write(self._fd, b"\n".join(asked) + b"\n")
        return b"".join(answers)

    def _body(self, kind: bytes) -> bytes | None:
        if self._share and self._random.random() < self._share:
            self.failed += 1
            return None if self._fault == "timeout" else _BODIES[self._fault]
        return _BODIES[kind]

    def _obey(self, words: list[str]) -> bytes:
        if words[0] == "!fault":
            self._fault, self._share = words[1], float(words[2])
        return b"! %d %d %d\n" % (self.calls, self.failed, self.research_calls)


class Connection(asyncio.Protocol):
    """One connection, of a worker or of the harness."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._rest = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection; its calls are already counted."""
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Answer all complete lines after the latency, in one write."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if lines and (answers := self._provider.answer(lines)):
            asyncio.get_running_loop().call_later(self._provider.latency_s, self._send, answers)

    def _send(self, answers: bytes) -> None:
        if self._transport is not None:
            self._transport.write(answers)


async def _serve(args: argparse.Namespace) -> None:
    provider = Provider(args.calls_file, args.latency, args.seed)
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    server = await loop.create_server(lambda: Connection(provider), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    beside = args.address_file.with_suffix(".new")
    beside.write_text(str(port), "ascii")
    beside.replace(args.address_file)
    await ended.wait()
    server.close()


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address-file", type=Path, required=True)
    parser.add_argument("--calls-file", type=Path, required=True)
    parser.add_argument("--latency", type=float, required=True, help="seconds from call to answer")
    parser.add_argument("--seed", type=int, required=True)
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    guard_output()
    main()
