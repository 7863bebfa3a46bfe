"""What strangers wrote reaches a terminal as characters that show: no title, clipboard, link, question or turned line."""

from __future__ import annotations

import ast
import asyncio
import csv
import io
import json
import os
import pty
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from rich.table import Table

from infra.clickhouse.client import Result
from infra.kafka.topics import KafkaAddress
from newsproof.app.console import Console
from newsproof.app.terminal import PrintableStream
from newsproof.cli.read.tables import Format, print_rows
from schemas import envelope as wire
from schemas.events import CaseDropped
from schemas.ids import LIVE_RUN, event_id
from schemas.printable import printable, printable_json, printable_line
from schemas.topics import Topics
from streams.journal.appender import Appender
from tests.newsproof.cli.test_dead_letters import poison
from tests.newsproof.command import CHECKOUT, environment, invoked, on_log
from tests.newsproof.signal_samples import NOW, signal, write_signals
from tests.specification import opened

pytestmark = pytest.mark.security

KEPT = "می\u200cخواهم 👩\u200d💻"
"""A Persian word with a non-joiner, an emoji with a joiner."""
HOSTILE = (
    "\x1b]0;owned\x07 \x1b[2J \x1b]52;c;cm0gLXJm\x07 \x1b]8;;https://evil.example\x1b\\bank\x1b]8;;\x1b\\ \x1b[6n "
    "\x9b6n \x9d0;t\x9c \u202egro.live\u202c \u2066a\u2069 \u200e\u200f\u061c \u2028\u2029 \x00\x08\x7f\r" + KEPT
)
ACTING = re.compile("[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]|\r(?!\n)")


def test_what_acts_is_shown_and_what_is_written_stays() -> None:
    assert printable("a\x1b[2J\n\tb\x7f\x9b\u202e\r") == "a␛[2J\n\tb␡\ufffd\ufffd␍"
    assert printable_line("a\n\tb") == "a␊␉b"
    assert KEPT in printable(HOSTILE) and ACTING.search(printable(HOSTILE)) is None
    assert len(printable(HOSTILE)) == len(HOSTILE)
    assert printable("lone \ud800").encode()


def test_marks_of_direction_stay_for_headlines_in_hebrew_arabic_and_persian_have_them() -> None:
    headline = "\u200fביטקוין (BTC)\u200e עלה \u061cبیت\u200cکوین\u200f"
    assert printable(headline) == printable_line(headline) == headline
    assert printable_json(json.dumps(headline, ensure_ascii=False)) == f'"{headline}"'


def test_the_end_of_a_line_may_be_written_in_two_characters_and_a_return_alone_is_shown() -> None:
    assert printable("a\r\nb\rc\r\r\n") == "a\r\nb␍c␍\r\n"
    assert printable_line("a\r\nb") == "a␍␊b"


def test_a_value_of_several_lines_is_the_same_in_a_csv_file(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO(newline="")
    monkeypatch.setattr("sys.stdout", PrintableStream(written))
    rows = [("one\r\ntwo", 1), ("\u200fשלום", 2), ("x\x1b[2J\ry", 3)]
    print_rows(Result(("text", "n"), rows), Format.csv)
    read = list(csv.reader(io.StringIO(written.getvalue(), newline="")))
    assert read == [["text", "n"], ["one\r\ntwo", "1"], ["\u200fשלום", "2"], ["x␛[2J␍y", "3"]]


def test_columns_are_as_wide_as_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr("sys.stdout", PrintableStream(written))
    made = Table("a\x1b[31m\x9b\u202eb", "k")
    made.add_row("plain", "x")
    made.add_row("\x1b[31mred\x1b[0m", "y")
    Console(width=60).print(made)
    assert len({cell_len(line) for line in written.getvalue().splitlines()}) == 1, written.getvalue()
    assert all(shown in written.getvalue() for shown in ("a␛[31m\ufffd\ufffdb ", " ␛[31mred␛[0m ")), (
        "nothing is cut off"
    )


def test_json_says_the_same_in_characters_that_do_not_act() -> None:
    document = printable_json(json.dumps({"text": HOSTILE}, ensure_ascii=False))
    assert ACTING.search(document) is None and json.loads(document) == {"text": HOSTILE}
    assert KEPT in document


def test_a_signal_prints_as_one_line_that_shows() -> None:
    line = str(signal("x", summary=HOSTILE + "\nverified buy BTC", links=("https://a.example/\x1b[2J",), asset="\x9bB"))
    assert ACTING.search(line) is None and "\n" not in line and KEPT in line


@pytest.fixture
async def hostile(address: KafkaAddress, made_topics: Topics) -> str:
    """A case, signals and a dead letter whose every word attacks; returns the case's id."""
    event = opened(HOSTILE, source="wire", external_id=f"1{HOSTILE[:30]}")
    event = replace(event, news=replace(event.news, url=f"https://a.example/{HOSTILE}"))
    case_id = event.news.case_id
    dropped = CaseDropped(reason="spam", detail=HOSTILE)
    appender = Appender(address)
    await appender.start()
    cause = None
    for n, one in enumerate((event, dropped)):
        id_ = event_id(LIVE_RUN, case_id, cause or "")
        at = NOW + timedelta(seconds=n)
        key, value, headers = wire.encode(one, id=id_, case_id=case_id, causation_id=cause, run_id=LIVE_RUN, time=at)
        await appender.append(made_topics.cases, value, key=key, partition=None, headers=headers)
        cause = id_
    bad = poison(made_topics.news, HOSTILE.encode(), 0)
    await appender.dead_letter(made_topics.dead_letters, bad, reason="not_json", why=HOSTILE, consumer="test")
    await appender.stop()
    words: dict[str, Any] = dict.fromkeys(("summary", "asset", "asset_name", "notes", "news_source"), HOSTILE)
    links = (f"https://a.example/{HOSTILE}",)
    written = signal("x", **words, links=links, risk_flags=(HOSTILE,))
    await write_signals(address, made_topics, written)
    return str(case_id)


def test_no_command_prints_what_acts(address: KafkaAddress, made_topics: Topics, hostile: str, tmp_path: Path) -> None:
    def said(command: str) -> str:
        done = invoked(*command.split(), cwd=tmp_path, env=on_log(address, made_topics))
        assert done.returncode in (0, 1), done.stderr
        assert ACTING.search(done.stdout + done.stderr) is None, command
        return str(done.stdout)

    letter = json.loads(said("dlq list --json"))["id"]
    for command in ("signals", "cases", f"case {hostile}", "dlq list", f"dlq show {letter}", "audit"):
        shown = said(command)
        assert command not in ("signals", "cases") or "␛]0;owned" in shown
        as_json = [said(f"{command} --json"), *([said(f"{command} --events")] if "case " in command else [])]
        texts = [text for one in as_json for line in one.splitlines() for text in _texts(json.loads(line))]
        assert command == "audit" or any("\x1b]0;owned" in text for text in texts)


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for one in value.values() for text in _texts(one)]
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
    return [value] if isinstance(value, str) else []


ON_A_TERMINAL = """
import sys, warnings
from newsproof.app.terminal import guard_output
guard_output()
from newsproof.app.sheet import json_line, say_result, table
from newsproof.app.logging_setup import configure_logs
import logging, structlog, typer
hostile = sys.argv[1].encode().decode("unicode_escape")
configure_logs()
table(("a [link=https://evil.example]b[/link]",), [(hostile,)], title=hostile)
json_line({"text": hostile}); say_result(hostile); print(hostile); typer.echo(hostile); warnings.warn(hostile)
structlog.get_logger().warning(hostile, text=hostile, other=[hostile])
logging.getLogger("x").warning("%s", hostile)
try:
    raise ValueError(hostile)
except ValueError:
    structlog.get_logger().exception("failed")
raise SystemExit(hostile)
"""
COLOURS = re.compile(r"\x1b\[[\d;]*m")


def on_a_terminal(code: str, *arguments: str) -> str:
    """Run the code with a terminal for its output, and return all that the terminal was given."""
    ours, theirs = pty.openpty()
    env = environment(TERM="xterm-256color")
    env.pop("NO_COLOR", None)
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments], env=env, stdin=theirs, stdout=theirs, stderr=theirs
    ):
        os.close(theirs)
        given = b""
        while True:
            try:
                read = os.read(ours, 65536)
            except OSError:  # how Linux tells that the other side was closed
                break
            if not read:
                break
            given += read
    os.close(ours)
    return given.decode("utf-8", "replace")


LOGS = """
from newsproof.app.logging_setup import configure_logs
import structlog
configure_logs()
log = structlog.get_logger()
log.info("items", source="coindesk", new=2, edit=1, left_out={})
log.warning("the source does not respond", source="wire", state="backing_off", why="no name", do="check it")
"""


def test_on_a_terminal_a_log_is_lines_for_people() -> None:
    lines = COLOURS.sub("", on_a_terminal(LOGS, "")).splitlines()
    assert [line[8:] for line in lines] == [
        " coindesk: items: new 2, edit 1",
        " warning: wire: the source does not respond: state backing_off: no name. To do: check it",
    ]
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d", line[:8]) for line in lines)


def test_a_terminal_gets_our_colours_and_no_other_escape() -> None:
    given = on_a_terminal(ON_A_TERMINAL, HOSTILE.encode("unicode_escape").decode())
    assert COLOURS.search(given), "tables and logs are coloured"
    plain = COLOURS.sub("", given).replace("\r\n", "\n")
    assert ACTING.search(plain) is None, [plain[m.start() - 40 : m.end() + 20] for m in ACTING.finditer(plain)][:3]
    assert plain.count("]0;owned") >= 10 and plain.count(KEPT) >= 8


def test_a_console_reads_no_markup_in_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr("sys.stdout", PrintableStream(written))
    Console(width=80).print("[link=https://evil.example]bank[/link]")
    assert written.getvalue() == "[link=https://evil.example]bank[/link]\n"


async def test_logs_in_files_escape_what_acts(tmp_path: Path) -> None:
    code = ON_A_TERMINAL.replace("raise SystemExit(hostile)", "")
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", code, HOSTILE.encode("unicode_escape").decode()],
        env=environment(),
        capture_output=True,
        check=True,
    )
    logged = done.stderr.decode()
    assert ACTING.search(logged + done.stdout.decode()) is None
    assert HOSTILE in [json.loads(line)["event"] for line in logged.splitlines() if line.startswith("{")]


GUARDED = ("guard_output()", "from newsproof.cli.main import main", "run_command_line(app")
BEHIND = {
    "newsproof/app/terminal.py", "newsproof/app/console.py", "newsproof/app/logging_setup.py", "newsproof/web/mcp_server.py",
}  # fmt: skip
"""Who may write behind the guard: it, the two that colour, and a protocol with escapes of its own."""


def goes_around(source: str) -> list[str]:
    """What a module would reach a terminal by without passing the guard."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            if node.attr in ("__stdout__", "__stderr__"):
                found.append(node.attr)
            if node.attr == "buffer" and ast.unparse(node.value) in ("sys.stdout", "sys.stderr"):
                found.append(ast.unparse(node))
        if isinstance(node, ast.ImportFrom) and node.module in ("rich", "rich.console"):
            found += [alias.name for alias in node.names if alias.name in ("Console", "print", "get_console")]
        if isinstance(node, ast.ImportFrom) and node.module == "newsproof.app.terminal":
            found += [alias.name for alias in node.names if alias.name == "behind"]
        if (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) == "os.write"
            and ast.unparse(node.args[0]) in ("1", "2")
        ):
            found.append("os.write")
    return found


def test_nothing_prints_around_the_guard_and_every_program_begins_with_it() -> None:
    modules = {
        path.relative_to(CHECKOUT).as_posix(): path.read_text("utf-8")
        for package in ("newsproof", "lab")
        for path in (CHECKOUT / package).rglob("*.py")
    }
    assert {name: found for name, text in modules.items() if name not in BEHIND and (found := goes_around(text))} == {}
    programs = [n for n, text in modules.items() if '__name__ == "__main__"' in text or n.endswith("__main__.py")]
    assert len(programs) >= 5
    assert [name for name in programs if not any(call in modules[name] for call in GUARDED)] == []
    assert goes_around("import sys\nsys.stdout.buffer.write(b'')\nfrom rich.console import Console") == [
        "Console",
        "sys.stdout.buffer",
    ]
