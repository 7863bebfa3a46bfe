"""What a start refuses, and says, before anything runs: its directory, its disk, its ports, its file of settings."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from infra.embedded.child import FULL_BYTES, ChildProcess, DirectoryLock, port_owner, why_not_bound
from infra.embedded.clickhouse.wire import loopback_socket
from infra.embedded.kafka.server import EmbeddedKafka
from infra.origin import NOT_OURS
from infra.settings import Settings
from newsproof.app import exits, terminal
from newsproof.app.data_dir import RoomWatch, refuse_unusable_directory, running_elsewhere
from newsproof.app.invocation import Invocation
from newsproof.app.restarting import for_want_of_room
from newsproof.app.servers import servers
from newsproof.app.terminal import command_name
from newsproof.cli.main import app
from newsproof.cli.run import up
from newsproof.web.server import opened
from schemas.errors import ConfigError, TransientError
from tests.newsproof.command import newsproof, processes_in

CHECKOUT = Path(__file__).parents[3]
FROZEN: dict[str, str] = json.loads((CHECKOUT / "tests" / "data" / "frozen_surfaces.json").read_text("utf-8"))["start"]
ME = f"PID {os.getpid()} ({psutil.Process().name()})"
MB = 1024 * 1024


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of this test's own to stand in."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path


def at(directory: str = "data", **values: Any) -> Settings:
    return Settings(_env_file=None, newsproof_data_dir=Path(directory), **values)  # type: ignore[call-arg]


def said(error: BaseException | str, **hidden: object) -> str:
    """Return an error's text with what differs from run to run replaced by names."""
    text = str(error)
    for name, value in hidden.items():
        text = text.replace(str(value), name.upper())
    return text


def refused(directory: str = "data", left_mb: int = 10_000) -> str:
    with pytest.raises(ConfigError) as found:
        refuse_unusable_directory(at(directory), free=lambda _: left_mb * MB)
    return str(found.value)


# The directory and its disk


def test_a_directory_that_cannot_be_used_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("file").touch()
    assert refused("file") == FROZEN["directory is a file"]
    assert refused("file/below") == FROZEN["directory cannot be made"]
    assert refused(left_mb=511) == FROZEN["directory without room"]
    for number, name in ((errno.EROFS, "directory cannot be written"), (errno.ENOSPC, "disk is full")):

        def fails(number: int = number, **_: object) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr("tempfile.TemporaryFile", fails)
        assert refused() == FROZEN[name]


def test_a_directory_that_can_be_used_is_made_for_its_owner_alone() -> None:
    refuse_unusable_directory(at("new/data"), free=lambda _: 512 * MB)
    assert Path("new/data").stat().st_mode & 0o777 == 0o700 and list(Path("new/data").iterdir()) == []


def test_a_disk_that_runs_short_is_told_once_for_each_change() -> None:
    left = [2000, 400, 300, 1, 0, 400, 512]
    watch = RoomWatch(at(), free=lambda _: left.pop(0) * MB)
    told = [watch.look() for _ in range(7)]
    short, full = FROZEN["disk runs short"], FROZEN["disk is full while running"]
    assert told == [None, short, None, full, None, short, FROZEN["disk has room again"]]


def test_a_disk_that_cannot_be_asked_is_told_once_and_ends_nothing() -> None:
    watch = RoomWatch(at(newsproof_min_free_mb=0))
    unknown = FROZEN["disk cannot be asked"]
    assert [watch.look(), watch.look()] == [unknown, None] and for_want_of_room(Path("data")) == ""
    Path("data").mkdir()
    told = watch.look()
    assert told is not None and re.sub(r"\d+", "MB_LEFT", told) == FROZEN["disk can be asked again"]


async def test_a_server_that_has_no_room_is_told_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=FULL_BYTES - 1))
    child = ChildProcess("Kafka", [sys.executable, "-c", "raise SystemExit(3)"], log_file=tmp_path / "kafka.log")
    child.start()
    await child.wait()

    async def ready() -> bool:
        return False

    with pytest.raises(ConfigError) as found:
        await child.wait_until(ready, timeout_s=10)
    assert said(found.value, dir=tmp_path) == FROZEN["server without room"]
    assert for_want_of_room(tmp_path) == FROZEN["ended without room"]
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "data/file")
    assert (exits.status_of(full), exits.text_of(full)) == (exits.USAGE, FROZEN["no room anywhere"])


async def test_a_command_whose_kafka_cannot_write_says_that_and_not_a_timeout(
    kafka: EmbeddedKafka, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "data").mkdir()
    (here / "data" / "kafka").symlink_to(kafka.data_dir)
    monkeypatch.setattr("newsproof.app.servers.disk_is_full", lambda _: True)
    with pytest.raises(TransientError) as found:
        async with servers(at(), clickhouse=False):
            raise TransientError("it took too long")
    assert str(found.value) == FROZEN["Kafka without room"]


@pytest.mark.slow
def test_up_on_a_small_disk_starts_nothing(tmp_path: Path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", place], check=False, capture_output=True
    ).returncode:
        pytest.skip("no tmpfs can be mounted here: it needs root")
    try:
        done = newsproof("up", "--data-dir", str(place), cwd=tmp_path)
        assert (done.returncode, processes_in(place)) == (exits.USAGE, [])
        assert "has 64 MB free, but starting needs 512 MB" in done.stderr and "Starting" not in done.stderr
        with pytest.raises(OSError, match="No space left"):
            (place / "filled").write_bytes(bytes(65 * MB))
        done = newsproof("publish", "-", "--data-dir", str(place), cwd=tmp_path, env={"NEWSPROOF_MIN_FREE_MB": "0"})
        assert done.returncode == exits.USAGE and "is full: free some space" in done.stderr
    finally:
        subprocess.run(["umount", place], check=True)


def test_a_refused_up_leaves_no_directory_behind_that_it_made() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        many: tuple[dict[str, Any], ...] = ({"web_port": port}, {"metrics_port": port}, {"web_host": "0.0.0.0"})
        for refused_by in many:
            with pytest.raises(ConfigError):
                asyncio.run(up.run_up(at("new/data", **refused_by), workers=1))
            assert not Path("new").exists(), refused_by
        with pytest.raises(ConfigError, match="but starting needs"):
            asyncio.run(up.run_up(at("new/data", newsproof_min_free_mb=10**9), workers=1))
        assert not Path("new").exists()
        Path("there").mkdir()
        with pytest.raises(ConfigError):
            asyncio.run(up.run_up(at("there", web_port=port), workers=1))
        assert Path("there").is_dir()


# Ports


def behind_a_free_port() -> socket.socket:
    """Return a listening socket. The port before its own is free: other tests hold ports, too."""
    taken = socket.create_server(("127.0.0.1", 0))
    if why_not_bound(taken.getsockname()[1] - 1, "127.0.0.1") is None:
        return taken
    with taken:
        return behind_a_free_port()


async def test_a_taken_port_is_named_with_who_has_it() -> None:
    with behind_a_free_port() as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError) as of_page:
            opened(at(web_port=port))
        with pytest.raises(ConfigError) as of_metrics:
            await up._refuse_taken_ports(at(metrics_port=port - 1), workers=1)
        with pytest.raises(ConfigError) as of_engine:
            await up._refuse_taken_ports(at(clickhouse_port=port), workers=1)
        with pytest.raises(ConfigError) as of_clickhouse:
            loopback_socket(port)
    found = [said(one.value, port=port, me=ME) for one in (of_page, of_metrics, of_engine, of_clickhouse)]
    names = ("page's port", "port of metrics", "port of ClickHouse", "port of ClickHouse, in its own words")
    assert found == [FROZEN[name] for name in names]
    assert port_owner(port) == FROZEN["unknown owner of a port"]


async def test_a_port_that_the_system_refuses_is_told_as_that_and_with_no_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError) as of_metrics:
        # TEST-NET-1 of RFC 5737: no machine has it.
        await up._refuse_taken_ports(at(metrics_host="192.0.2.1", metrics_port=9100), workers=1)

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(ConfigError) as of_engine:
        await up._refuse_taken_ports(at(clickhouse_port=1023), workers=1)
    with pytest.raises(ConfigError) as of_clickhouse:
        loopback_socket(1023)
    monkeypatch.setattr("infra.embedded.kafka.server.free_ports", lambda _: (1, 2))
    with pytest.raises(ConfigError) as of_kafka:
        EmbeddedKafka(tmp_path, port=1023)._write_properties()
    found = {
        "metrics": str(of_metrics.value),
        "ClickHouse": str(of_engine.value),
        "ClickHouse, in its own words": str(of_clickhouse.value),
        "Kafka": str(of_kafka.value),
    }
    assert found == {name: FROZEN[f"refused port of {name}"] for name in found}


def test_a_second_up_of_a_directory_is_told_who_has_it() -> None:
    first, second = (DirectoryLock(Path("data/up"), what="`newsproof up`") for _ in range(2))
    up._take(first)
    up._tell_others(first, "http://127.0.0.1:8700/")
    since = json.loads(Path("data/up/holder.json").read_text())["since"]
    second.acquire = lambda: DirectoryLock.acquire(second, patience_s=0)  # type: ignore[method-assign]
    with pytest.raises(ConfigError) as found:
        up._take(second)
    first.release()
    assert said(found.value, since=since, pid=os.getpid()) == FROZEN["second up"]
    # The next one holds the lock, and has not told its page yet: what the first one left names another process.
    up._take(first)
    with pytest.raises(ConfigError) as found:
        up._take(second)
    first.release()
    assert said(found.value, pid=os.getpid()) == FROZEN["second up, while the first one starts"]


def test_a_pipeline_on_another_directory_is_found(tmp_path: Path) -> None:
    program = "import sys; print(flush=True); sys.stdin.read()"
    env = {**os.environ, "NEWSPROOF_DATA_DIR": "/somewhere/data", "KAFKA_EMBEDDED_PASSWORD_FILE": "x"}
    command = [sys.executable, "-c", program, "-m", "newsproof", "sink"]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as sink:
        assert sink.stdout is not None
        sink.stdout.readline()
        assert Path("/somewhere/data") in running_elsewhere(tmp_path)
        assert Path("/somewhere/data") not in running_elsewhere(Path("/somewhere/data"))
        assert sink.stdin is not None
        sink.stdin.close()


# The command line and the file of settings


def config(*arguments: str) -> tuple[int, str, dict[str, dict[str, str]]]:
    """Run `config` in this process; return its status, what it said and the settings by name."""
    done = CliRunner().invoke(app, ["config", "--json", *arguments])
    text = done.stderr + (str(done.exception) if isinstance(done.exception, ConfigError) else "")
    return done.exit_code, text, {one["name"]: one for one in map(json.loads, done.stdout.splitlines())}


def test_global_options_stand_before_or_after_the_command() -> None:
    for arguments in (("--data-dir", "X Y"), ("--data-dir=X Y",)):
        assert config(*arguments)[2]["NEWSPROOF_DATA_DIR"]["value"] == "X Y"
        assert command_name().endswith(" --data-dir 'X Y'")
    # What follows -- is the command's, as is what another option takes.
    assert CliRunner().invoke(app, ["publish", "--", "--data-dir", "X"]).exit_code == exits.USAGE
    assert CliRunner().invoke(app, ["config", "--data-dir"]).exit_code == exits.USAGE


def test_hints_name_the_directory_and_the_file_that_were_given(monkeypatch: pytest.MonkeyPatch) -> None:
    assert " --" not in command_name()
    Path("mine.env").touch()
    config("--env-file", "mine.env")
    assert command_name().endswith(" --env-file mine.env") and "--data-dir" in command_name(Path("other"))
    monkeypatch.setattr(terminal.GIVEN, "env_file", None)
    monkeypatch.setenv("NEWSPROOF_DATA_DIR", "set")
    assert command_name().endswith(" --data-dir set")


def test_what_is_wrong_in_a_file_of_settings_is_named() -> None:
    file = Path(".env")
    file.write_text("# mine\nWEB_PORT=1\n\n  sk geheim\n")
    _, text, _ = config()
    assert said(text, dir=Path.cwd()) == FROZEN[".env line without ="] and "geheim" not in text
    done = newsproof("config", cwd=Path.cwd())
    assert (done.returncode, done.stderr.count("\n")) == (exits.USAGE, 1)
    file.write_text(
        "GEMINI_KEY=geheim\nNEWSPROOF_DATADIR=x\nFOO=1\nexport HOME_PAGE=x\nGRAFANA_PASSWORD=x\nOPENAI_KEY=x\n"
    )
    status, text, _ = config()
    assert (status, text.splitlines()) == (0, [FROZEN[".env name"], FROZEN[".env name of ours"]])
    assert config("--env-file", "nowhere")[1] == FROZEN["--env-file without a file"]


def test_a_client_is_told_of_a_setting_that_is_nearly_one_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    Path(".env").write_text("TAVILY_KEY=x\nNEWSPROOF_MODE=live\n")
    Invocation().client_settings()
    assert capsys.readouterr().err == "", "all settings are loaded only where one looks like a client's"
    Path("mine.env").write_text("KAFKA_BOOTSTRAP_SERVER=broker:9092\nNEWSPROOF_MODE=live\n")
    invocation = Invocation()
    invocation.env_file = Path("mine.env")
    assert [invocation.client_settings().kafka_bootstrap_servers for _ in range(2)] == [None, None]
    assert capsys.readouterr().err == FROZEN["name in a file, told to a client"] + "\n"


@pytest.mark.security
def test_a_file_that_nobody_named_sets_no_providers_address_unless_it_is_beside_the_data_directory() -> None:
    Path(".env").write_text("TAVILY_BASE_URL=https://mine.example\n")
    assert config()[2]["TAVILY_BASE_URL"]["origin"] == ".env"
    assert said(config("--data-dir", "/nowhere/data")[1], dir=Path.cwd()) == FROZEN[".env elsewhere"]
    _, _, named = config("--data-dir", "/nowhere/data", "--env-file", ".env")
    assert named["TAVILY_BASE_URL"]["value"] == "https://mine.example"


def test_names_that_other_files_of_ours_read_are_no_misspelt_settings() -> None:
    used = {"newsproof_python"}
    for file in CHECKOUT.glob("docker-compose*.yml"):
        used |= {part.split("}")[0].split(":")[0].split("?")[0].lower() for part in file.read_text().split("${")[1:]}
    assert {name for name in used if name not in Settings.model_fields} == NOT_OURS
