"""``newsproof sql`` and ``newsproof analyst`` on an embedded engine that runs."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import pty
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from infra.clickhouse.client import Result
from infra.clickhouse.statement import split_statements
from infra.settings import Settings
from newsproof.app import exits
from newsproof.app.composition import clickhouse_of
from newsproof.app.processes.supervisor import prepare_tables
from newsproof.app.servers import servers
from newsproof.cli.read.tables import markdown
from tests.newsproof.command import COMMAND, environment, invoked


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory whose embedded ClickHouse runs, with the tables and one note."""
    directory = tmp_path_factory.mktemp("sql")
    up, down = threading.Event(), threading.Event()

    async def serve() -> None:
        settings = Settings(_env_file=None, newsproof_data_dir=directory / ".data")  # type: ignore[call-arg]
        async with servers(settings, kafka=False) as found:
            at = found.applied_to(settings)
            await prepare_tables(at)
            async with clickhouse_of(at) as tables:
                await tables.command("CREATE TABLE notes (n UInt64, text String) ENGINE = MergeTree ORDER BY n")
                await tables.command("INSERT INTO notes VALUES (1, 'a;b'), (2, 'c | d')")
            up.set()
            await asyncio.to_thread(down.wait)

    running = threading.Thread(target=asyncio.run, args=(serve(),))
    running.start()
    assert up.wait(60)
    yield directory
    down.set()
    running.join()


def sql(place: Path, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    return invoked("sql", *arguments, cwd=place, stdin=stdin)


def test_it_reads_as_the_analysts_user_and_writes_only_when_told_to(place: Path) -> None:
    refused = sql(place, "INSERT INTO notes VALUES (3, 'x')")
    assert (refused.returncode, refused.stdout) == (exits.USAGE, "")
    assert "Not enough privileges" in refused.stderr and "--admin" in refused.stderr
    outside = sql(place, "SELECT * FROM url('http://127.0.0.1:1/', CSV, 'a String')")
    assert outside.returncode == exits.USAGE and "url()" in outside.stderr
    assert sql(place, "INSERT INTO notes VALUES (3, 'x')", "--admin").returncode == exits.OK
    assert sql(place, "ALTER TABLE notes DELETE WHERE n = 3 SETTINGS mutations_sync = 1", "--admin").returncode == 0
    assert json.loads(sql(place, "SELECT count() AS n FROM notes", "--json").stdout) == {"n": 2}


def test_several_statements_come_from_a_file_or_standard_input(place: Path) -> None:
    script = "-- what there is; twice\nSELECT text FROM notes WHERE n = 1;\n\nSELECT 'x;y' AS text /* ; */;\n"
    (place / "two.sql").write_text(script)
    rows = [{"text": "a;b"}, {"text": "x;y"}]
    for done in (
        sql(place, "-f", "two.sql", "--json"),
        sql(place, "-f", "-", "--json", stdin=script.encode()),
        sql(place, "--json", stdin=script.encode()),
        sql(place, "--json", "--", script),
    ):
        assert [json.loads(line) for line in done.stdout.splitlines()] == rows, done.stderr
    left = sql(place, "--json", stdin=b"SELECT 1 AS n;\nExit;\nSELECT 2 AS n")
    assert (left.returncode, left.stdout) == (exits.OK, '{"n":1}\n'), left.stderr
    assert sql(place, stdin=b"exit\n").returncode == exits.OK
    broken = sql(place, "SELECT 1 AS n; SELECT nonsense; SELECT 2", "--json")
    assert (broken.returncode, broken.stdout) == (exits.USAGE, '{"n":1}\n')
    assert "statement 2 of 3" in broken.stderr
    mistyped = sql(place, "SELECT * FROM note").stderr
    assert (
        mistyped.startswith("newsproof: ClickHouse refuses the statement: Unknown table")
        and "Maybe you meant" in mistyped
    )
    assert "give either a statement or --file" in sql(place, "SELECT 1", "-f", "two.sql").stderr
    assert "no-such.sql cannot be read" in sql(place, "-f", "no-such.sql").stderr


def test_parameters_are_bound_by_clickhouse_and_never_become_sql(place: Path) -> None:
    tricky = "it's 100 %\\ ; -- {x:String}"
    query = "SELECT {x:String} AS x, n FROM notes WHERE n = {n:UInt64}"
    done = sql(place, query, "--param", f"x={tricky}", "--param", "n=2", "--json")
    assert json.loads(done.stdout) == {"x": tricky, "n": 2}, done.stderr
    unused = sql(place, "SELECT 1", "--param", "x=1")
    assert unused.returncode == exits.USAGE and "{x:Type}" in unused.stderr
    assert "name=value" in sql(place, "SELECT 1", "--param", "x").stderr


def test_every_format_holds_the_same_rows(place: Path) -> None:
    query = "SELECT n, text FROM notes ORDER BY n"
    as_csv = list(csv.reader(io.StringIO(sql(place, query, "--format", "csv").stdout)))
    assert as_csv == [["n", "text"], ["1", "a;b"], ["2", "c | d"]]
    as_markdown = sql(place, query, "--format", "markdown").stdout.splitlines()
    assert as_markdown == ["| n | text |", "|---:|---|", "| 1 | a;b |", r"| 2 | c \| d |"]
    assert "c | d" in sql(place, query).stdout


def test_text_of_the_web_stays_text_in_a_markdown_table() -> None:
    hostile = Result(("x",), [("<img src=x onerror=1>\n| [a](javascript:1) `b` |",), (None,)])
    assert markdown(hostile).splitlines()[2:] == [
        r"| &lt;img src=x onerror=1> \| \[a\](javascript:1) \`b\` \| |",
        "|  |",
    ]


def test_a_prompt_asks_when_a_person_sits_at_the_terminal(place: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "sql", "--json"], cwd=place, env=environment(TERM="dumb"), stdin=theirs, stdout=subprocess.PIPE
    )
    os.close(theirs)
    os.write(
        ours,
        b"SELECT n\nFROM notes WHERE n = 1;\nSELECT nonsense;\nDROP TABLE notes;\nSELECT 'still here' AS x;\nexit\n",
    )
    said, _ = process.communicate(timeout=120)
    os.close(ours)
    lines = said.decode().splitlines()
    assert process.returncode == 0
    assert [json.loads(line[line.index("{") :]) for line in lines if line.endswith("}")] == [
        {"n": 1},
        {"x": "still here"},
    ]
    assert any("nonsense" in line for line in lines) and any("--admin" in line for line in lines)


def test_other_tools_are_told_how_to_come_in_and_only_as_the_analyst(place: Path) -> None:
    told = json.loads(invoked("analyst", "--json", cwd=place).stdout)
    asked = {"query": "SELECT count() FROM notes", "database": told["database"]}
    with httpx.Client(base_url=told["url"], trust_env=False) as http:
        assert http.get("/", params=asked, auth=(told["user"], told["password"])).text == "2\n"
        for user in ("default", "newsproof", told["user"]):
            assert http.get("/", params=asked, auth=(user, "")).status_code == 403
    assert told["password"] not in (place / ".data" / "clickhouse" / "server.log").read_text()
    kept = place / ".data" / "clickhouse"
    assert all((kept / name).stat().st_mode & 0o077 == 0 for name in ("passwords.json", "analyst-password"))
    printed = invoked("analyst", cwd=place).stdout
    assert told["password"] not in printed and told["password_file"] == str(kept / "analyst-password")
    command = printed[printed.index("printf") :].replace("v_cost_by_step", "notes")
    answered = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert "Exception" not in answered.stdout and "│" in answered.stdout


def test_without_an_engine_the_command_says_how_to_get_one(tmp_path: Path) -> None:
    for url, says in (("", "`newsproof up`"), ("http://u:p@127.0.0.1:1", "CLICKHOUSE_ANALYST_PASSWORD")):
        done = invoked("analyst", cwd=tmp_path, env={"CLICKHOUSE_URL": url})
        assert done.returncode == exits.USAGE and says in done.stderr


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("", []),
        (" ; ;\n-- nothing; here\n", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;", ["SELECT 1"]),
        ("SELECT ';', \"a;b\", `c;d`; SELECT f(1, ';')", ["SELECT ';', \"a;b\", `c;d`", "SELECT f(1, ';')"]),
        ("/* a; */ SELECT 1 -- b;\n + 2; SELECT [1, 2]", ["SELECT 1 -- b;\n + 2", "SELECT [1, 2]"]),
        ("(SELECT 1) UNION ALL (SELECT 2)", ["(SELECT 1) UNION ALL (SELECT 2)"]),
    ],
)
def test_a_script_is_cut_where_statements_end(text: str, statements: list[str]) -> None:
    assert split_statements(text) == statements
