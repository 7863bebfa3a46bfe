"""What commands print in their tables, and what every service does before it begins."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import stat
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from rich.cells import cell_len
from structlog.testing import capture_logs

from infra import late_log
from newsproof.app import exits
from newsproof.app.invocation import run
from newsproof.app.logging_setup import configure_logs, configure_logs_late
from newsproof.app.processes.targets import log
from newsproof.app.sheet import PIPE_COLUMNS, UNWRAPPED, table
from schemas.printable import counted
from tests.logging_state import preserve_logging
from tests.newsproof.command import environment


def test_money_is_written_out_and_what_is_unknown_is_no_zero(capsys: pytest.CaptureFixture[str]) -> None:
    table(["name", "cost"], [("free", Decimal("0E-9")), ("paid", Decimal("0.000412000")), ("unknown", None)])
    rows = [line.split("│")[1:3] for line in capsys.readouterr().out.splitlines() if "│" in line]
    assert [[cell.strip() for cell in row] for row in rows] == [["free", "0"], ["paid", "0.000412"], ["unknown", "–"]]


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (0.0, "0.00"),
        (0.00391, "0.00391"),
        (-0.008238, "-0.00824"),
        (0.5, "0.50"),
        (-1234.5, "-1,234.50"),
        (0.0000012, "1.2e-06"),
    ],
)
def test_what_is_small_is_not_printed_as_nothing(
    value: float, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table(["figure"], [(value,)])
    assert f"│ {printed} " in capsys.readouterr().out


def test_a_table_in_a_pipe_is_as_wide_as_a_page_and_breaks_no_short_word(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    heads = ("independent", "published", "credibility", "notes", "title")
    for columns, piped, widths in (
        ("", PIPE_COLUMNS, {100}),
        ("80", PIPE_COLUMNS, {80}),
        ("", UNWRAPPED, range(5_000, 5_200)),
    ):
        monkeypatch.setenv("COLUMNS", columns)
        table(heads, [("yes", "2021-09-13", "unknown", "https://example.org/" * 3, "word " * 999)], piped=piped)
        out = capsys.readouterr().out
        assert max(map(cell_len, out.splitlines())) in widths
        assert {*heads, "2021-09-13", "unknown"} <= set(out.split()), out
    monkeypatch.setenv("COLUMNS", "20")
    table([str(n) for n in range(30)], [["word"] * 30])
    assert max(map(len, capsys.readouterr().out.splitlines())) > 0, "more columns than room"


def test_who_interrupts_a_long_command_is_told_what_is_kept(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted() -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr("newsproof.app.logging_setup.configure_logs", lambda *_a, **_k: None)
    with pytest.raises(SystemExit) as ended:
        run(interrupted(), interrupted="`newsproof outcomes compute` completes it")
    assert ended.value.code == exits.INTERRUPTED
    assert capsys.readouterr().err == "Interrupted: `newsproof outcomes compute` completes it.\n"


@pytest.mark.parametrize(
    ("number", "what", "said"),
    [
        (1, "day", "1 day"),
        (0, "day", "0 days"),
        (2000, "story", "2,000 stories"),
        (2, "miss", "2 misses"),
        (1, "piece", "1 piece"),
    ],
)
def test_what_is_counted_is_in_the_plural_unless_it_is_one(number: int, what: str, said: str) -> None:
    assert counted(number, what) == said


def test_a_logger_outlives_the_stream_that_standard_error_was(monkeypatch: pytest.MonkeyPatch) -> None:
    first, later = io.StringIO(), io.StringIO()
    monkeypatch.setattr("sys.stderr", first)
    configure_logs()
    log.warning("one")
    monkeypatch.setattr("sys.stderr", later)
    first.close()
    log.warning("two")
    assert "two" in later.getvalue()


def test_a_message_is_taken_though_the_late_configuration_went_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    configure_logs_late()
    monkeypatch.setattr(late_log, "_pending", [])
    logging.getLogger("uvicorn.error").warning("once a recursion without an end")


def test_what_a_command_configures_of_the_logs_is_gone_with_its_test() -> None:
    level = logging.getLogger("aiokafka").level
    with preserve_logging():
        configure_logs("WARNING", libraries="CRITICAL")
        log.warning("from now on it would keep to this configuration")
    with capture_logs() as logs:
        log.info("seen")
    assert [one["event"] for one in logs] == ["seen"] and logging.getLogger("aiokafka").level == level


SERVICE = """
from pathlib import Path
from infra.settings import load_settings
from newsproof.app.invocation import run
async def work():
    Path("written").write_text("evidence")
run(work(), service=load_settings())
"""


@pytest.mark.security
def test_a_service_closes_its_data_directory_and_writes_for_its_owner_alone(tmp_path: Path) -> None:
    (tmp_path / ".data").mkdir(mode=0o755)
    subprocess.run([sys.executable, "-c", SERVICE], cwd=tmp_path, env=environment(), check=True, timeout=60)
    assert stat.S_IMODE((tmp_path / ".data").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "written").stat().st_mode) == 0o600


FAULTY = """
from infra.settings import load_settings
from newsproof.app.invocation import run
from newsproof.app import exits

async def work():
    return {}["partition 4"]

try:
    run(work(), service=load_settings())
except Exception as exc:
    raise SystemExit(exits.status_of(exc))
"""


def test_an_unforeseen_error_of_a_service_is_logged_with_its_place(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", FAULTY], cwd=tmp_path, env=environment(NEWSPROOF_MODE="offline"),
        capture_output=True, check=False, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == exits.INTERNAL
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert [
        (at["level"], 'return {}["partition 4"]' in at["exception"] or "in work" in at["exception"]) for at in lines
    ] == [("error", True)], done.stderr
