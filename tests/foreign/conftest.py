"""A real llama-server on a free port, with a model of random weights; where it cannot be had, the tests say why and are skipped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from infra.embedded.child import ChildProcess, free_ports
from schemas.errors import ConfigError
from tests.foreign.llama_build import built_server
from tests.foreign.tiny_gguf import write_tiny_model

NAME = "tiny"


@pytest.fixture(scope="session")
def llama_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of llama-server without its version."""
    capturing = request.config.pluginmanager.getplugin("capturemanager")

    def progress(line: str) -> None:
        with capturing.global_and_fixture_disabled():
            print(f"\n{line}", flush=True)

    try:
        program, llama_cpp = built_server(progress)
    except ConfigError as exc:
        pytest.skip(str(exc))
    place = tmp_path_factory.mktemp("llama")
    write_tiny_model(place / "tiny.gguf", llama_cpp=llama_cpp)
    url, child = _server(program, place / "tiny.gguf")
    child.start()
    asyncio.run(child.wait_until(lambda: _healthy(url), timeout_s=60))
    yield url
    asyncio.run(child.stop())


@pytest.fixture
async def llama(llama_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """What the adapter does not show is asked here."""
    async with httpx.AsyncClient(base_url=llama_url, timeout=60, trust_env=False) as client:
        yield client


def _server(program: Path, model: Path) -> tuple[str, ChildProcess]:
    (port,) = free_ports(1)
    # One slot, so that a call which does not end would keep all others waiting.
    command = [str(program), "-m", str(model), "--port", str(port), "--parallel", "1", "--threads", "1", "--metrics"]
    command += ["--alias", NAME]  # without one, the model's name is the path as it is given
    return f"http://127.0.0.1:{port}", ChildProcess("llama-server", command, log_file=model.with_name("server.log"))


async def _healthy(url: str) -> bool:
    """503 while the model is loaded."""
    async with httpx.AsyncClient(timeout=2, trust_env=False) as client:
        try:
            return (await client.get(f"{url}/health")).status_code == 200
        except httpx.HTTPError:
            return False
