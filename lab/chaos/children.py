"""The child processes of a chaos run: each can be killed and restarted, and keeps its calls in flight in a file."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from infra.embedded.child import ChildProcess
from lab.chaos.inflight import Counters, read_counters
from lab.chaos.waits import WAITS
from newsproof.app.processes.supervisor import SAYS
from schemas.errors import ConfigError

PROJECT = Path(__file__).resolve().parents[2]


async def until(ready: Callable[[], bool], *, within_s: float, every_s: float = 0.05) -> bool:
    """Wait until ``ready()``; return False if that takes longer than ``within_s``."""
    give_up = time.monotonic() + within_s
    while not ready():
        if time.monotonic() > give_up:
            return False
        await asyncio.sleep(every_s)
    return True


class Child:
    """One service that is restarted repeatedly. Each start is an incarnation with its own counter file."""

    def __init__(self, name: str, what: str, directory: Path, env: Mapping[str, str], provider: int) -> None:
        self.name = name
        self.incarnations = 0
        self.struck = False
        """True while a fault is injected: its exit is then expected, and the injector restarts it."""
        self._what, self._directory, self._provider = what, directory, provider
        self._control = directory / f"{name}.failpoint"
        self._ready = self._control.with_suffix(".ready")
        self._process = ChildProcess(name, [], log_file=directory / f"{name}.log", cwd=directory, env=env)

    @property
    def running(self) -> bool:
        return self._process.running

    @property
    def counters(self) -> Counters:
        """The counters of the current incarnation."""
        return read_counters(self._file(self.incarnations))

    @property
    def exposed(self) -> int:
        """Calls that may be paid again, over all incarnations. Exact once the process has ended."""
        return sum(read_counters(self._file(n)).at_death for n in range(1, self.incarnations + 1))

    @property
    def listening(self) -> bool:
        """True if a failpoint can be armed in the process."""
        return self.running and self._ready.exists() and self._ready.read_text("ascii") == str(self._process.pid)

    @property
    def working(self) -> bool:
        """True if the process can be a target; a worker must also have calls in flight."""
        return self.listening and not self.struck and (self._what == "sink" or self.counters.open > 0)

    def start(self) -> None:
        """Start the next incarnation."""
        self.incarnations += 1
        self._ready.unlink(missing_ok=True)
        more = [] if self._what == "sink" else ["--inflight", str(self._file(self.incarnations))]
        more += [] if self._what == "sink" else ["--provider", str(self._provider)]
        module = [sys.executable, "-P", "-m", "lab.chaos.worker", self._what]
        self._process.command = [*module, "--control", str(self._control), *more]
        self._process.start()

    def arm(self, failpoint: str) -> None:
        """Make the process kill itself at this failpoint."""
        self._control.write_text(failpoint, "ascii")
        self.signal(signal.SIGUSR1)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal if the process is running."""
        if self.running:
            os.kill(self._process.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()

    async def ended(self, within_s: float) -> bool:
        """Wait for the process to exit; return False if it is still running."""
        return await until(lambda: not self.running, within_s=within_s)

    async def stop(self) -> int | None:
        """Stop the process gracefully; return its exit status."""
        self.struck = True
        self.signal(signal.SIGCONT)
        return await self._process.stop(timeout_s=30.0)

    async def waits(self) -> list[str]:
        """Return where the process's tasks wait, as it reports itself; empty if it does not respond."""
        if not self.running:
            return ["it does not run"]
        self.signal(signal.SIGUSR2)
        await asyncio.sleep(1.0)  # a blocked event loop reports nothing, and nothing marks the last line
        return [line.removeprefix(WAITS) for line in self._process.log_tail(200).splitlines() if line.startswith(WAITS)]

    def last_words(self) -> str:
        """Return the command line's error message, else the last line of the log."""
        lines = self._process.log_tail(50).splitlines() or ["it logged nothing"]
        messages = [line for line in lines if line.startswith(SAYS)]
        return (messages or lines)[-1][:300]

    def _file(self, incarnation: int) -> Path:
        return self._directory / f"{self.name}.inflight-{incarnation}"


class ProviderProcess:
    """The provider process, and the harness's connection to it."""

    def __init__(self, directory: Path, env: Mapping[str, str], *, latency_s: float, seed: int) -> None:
        self._address = directory / "provider.address"
        self.calls_file = directory / "provider.calls"
        options = ["--address-file", str(self._address), "--calls-file", str(self.calls_file)]
        options += ["--latency", str(latency_s), "--seed", str(seed)]
        command = [sys.executable, "-P", "-m", "lab.chaos.provider", *options]
        self._process = ChildProcess("provider", command, log_file=directory / "provider.log", cwd=directory, env=env)

    @property
    def port(self) -> int:
        return int(self._address.read_text("ascii"))

    async def start(self) -> None:
        """Start the process and wait until it listens.

        Raises:
            ConfigError: it did not start.
        """
        self._process.start()
        if not await until(self._address.exists, within_s=30.0):
            raise ConfigError(f"the provider process did not start: {self._process.log_tail()}")

    async def fault(self, name: str, share: float) -> None:
        """Make this share of the calls fail; ``none`` and 0 end the fault."""
        await self._say(f"!fault {name} {share}")

    async def counts(self) -> tuple[int, int, int]:
        """Return (calls received, calls answered with a fault, calls of the research flow received)."""
        return await self._say("!count")

    async def stop(self) -> None:
        await self._process.stop()

    async def _say(self, line: str) -> tuple[int, int, int]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(f"{line}\n".encode())
            _, calls, failed, research = map(int, (await reader.readline()).replace(b"!", b"0").split())
            return calls, failed, research
        finally:
            writer.close()
