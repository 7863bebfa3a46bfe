"""Statements that try to name an output file in ways that the front's words and the engine's may read differently.

    python -m tests.infra.embedded.output_files --count 100000 --seed 1

Each statement goes through the fence that an analyst's statement meets, and through the engine's own printer
(``formatQuerySingleLine``). What passes the fence must not hold INTO OUTFILE as the engine prints it. Status 1 when one does.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec

KINDS = (
    *("SELECT 1", "SELECT 'x' AS a", "WITH 1 AS x SELECT x", "FROM newsproof.notes SELECT n", "(SELECT 1)"),
    *("SELECT 1 UNION ALL SELECT 2", "SELECT $$a$$", "SELECT ‘a’", "SELECT “dummy” FROM system.one"),
    *(
        "SHOW SETTING log_comment",
        "SHOW SETTING max_threads",
        "SHOW FUNCTIONS",
        "SHOW FUNCTIONS LIKE 'a%'",
        "SHOW ENGINES",
    ),
    *("SHOW TABLES", "SHOW TABLES FROM system", "SHOW DATABASES", "SHOW COLUMNS FROM notes", "SHOW INDEX FROM notes"),
    *("SHOW CREATE TABLE newsproof.notes", "SHOW CREATE VIEW v", "SHOW CREATE DATABASE newsproof", "SHOW TABLE notes"),
    *("DESCRIBE TABLE newsproof.notes", "DESC notes", "DESCRIBE `we ird`.`na``me`", "DESCRIBE (SELECT 1)"),
    *(
        "EXISTS TABLE newsproof.notes",
        "EXISTS DATABASE newsproof",
        "EXISTS VIEW `INTO OUTFILE`",
        "EXISTS newsproof.notes",
    ),
    *(
        "EXPLAIN SELECT 1",
        "EXPLAIN AST SELECT 1",
        "EXPLAIN SYNTAX SELECT 1",
        "SHOW SETTINGS LIKE 'a'",
        "SHOW FULL TABLES",
    ),
    *("SELECT 'INTO OUTFILE'", "SELECT 1 AS `INTO OUTFILE`", "CHECK TABLE notes", "SHOW PROCESSLIST", "SHOW CLUSTERS"),
)
SPACES = (
    *(
        " ", "\t", "\n", "\r\n", "\x0b", "\x0c", "\u0085", "\u00a0", "\u180e", "\u2000", "\u2009", "\u200b",
        "\u200d", "\u2028",
    ),
    *(
        "\u202f",
        "\u205f",
        "\u2060",
        "\u3000",
        "\ufeff",
        "/**/",
        "/* /* */ */",
        "/* ' */",
        "-- x\n",
        "# x\n",
        "#!x\n",
        "//x\n",
    ),
    *("--'\n", "/* -- */", "\u00a0\u00a0", " \u3000 ", "/* /* */ ' */", "/*\n*/"),
)  # fmt: skip
FILES = (
    *("INTO{s}OUTFILE{s}'{f}'", "into{s}outfile{s}'{f}'", "INTO{s}OUTFILE{s}‘{f}’", "INTO{s}OUTFILE{s}$${f}$$"),
    *("INTO{s}OUTFILE{s}$x${f}$x$", "INTO{s}OUTFILE{s}'{f}'{s}APPEND", "INTO{s}OUTFILE{s}'{f}'{s}TRUNCATE"),
    *("INTO{s}OUTFILE{s}'{f}'{s}AND{s}STDOUT", "INTO{s}OUTFILE{s}'{f}'{s}COMPRESSION{s}'gzip'", "", "", "FORMAT{s}CSV"),
    *("INTO{s}OUTFILE{s}'{f}'{s}FORMAT{s}RawBLOB", "FORMAT{s}CSV{s}INTO{s}OUTFILE{s}'{f}'", "SETTINGS{s}max_threads=1"),
)
HIDES = (
    "{x}", "{x}", "{x}", "{x};", "{x}{s}-- '", "/* /* */{s}'{s}*/{s}{x}{s}--{s}'", "{s}{x}{s}", "({x})",
    "EXPLAIN{s}{x}",
)  # fmt: skip
_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*+'|`(?:[^`\\]|\\.|``)*+`|\"(?:[^\"\\]|\\.|\"\")*+\"", re.DOTALL)


class Tally(msgspec.Struct):
    """What became of the statements of one run."""

    statements: int = 0
    with_output_file: int = 0
    """As the engine prints them."""
    passed: int = 0
    slipped: list[str] = []
    """Passed the fence with an output file in them."""

    @classmethod
    def read(cls, text: str) -> Tally:
        """Read the last line that a run printed."""
        return msgspec.json.decode(text.splitlines()[-1], type=cls)


def drawn(rng: random.Random) -> str:
    """Return one statement."""
    s = rng.choice(SPACES)
    x = rng.choice(KINDS) + rng.choice(SPACES) + rng.choice(FILES).replace("{f}", "out.csv")
    if rng.random() < 0.3:
        x = re.sub(" ", lambda _: rng.choice(SPACES), x)
    return rng.choice(HIDES).replace("{x}", x).replace("{s}", s)


def names_output_file(canonical: str) -> bool:
    """Whether a statement as the engine prints it writes to a file: outside of quotes, it says so in two words."""
    return "INTO OUTFILE" in _QUOTED.sub("''", canonical)


def run(count: int, seed: int) -> Tally:
    """Put statements before the fence."""
    from chdb.state.sqlitelike import Connection

    from infra.clickhouse.statement import StatementError, read_statement
    from infra.embedded.clickhouse.access import AccessDeniedError, check_statement, in_a_row

    tally, rng = Tally(), random.Random(seed)
    with tempfile.TemporaryDirectory() as directory:
        connection: Any = Connection(str(Path(directory) / "engine"))

        def ask(sql: str, parameters: Mapping[str, str]) -> str:
            try:
                result = connection.query(sql, "TabSeparatedRaw", params=dict(parameters) or None)
            except RuntimeError as exc:
                raise ValueError(str(exc)) from exc
            return bytes(result.get_memview().view()).decode("utf-8", "replace") if result.size() else ""

        for _ in range(count):
            sql = drawn(rng)
            tally.statements += 1
            canonical = ask("SELECT formatQuerySingleLineOrNull({s:String})", {"s": in_a_row(sql)})
            writes = names_output_file(canonical)
            tally.with_output_file += writes
            try:
                runs = check_statement(read_statement(BytesIO(sql.encode())).sql, ask)
            except (AccessDeniedError, StatementError, ValueError):
                continue
            tally.passed += 1
            if writes or names_output_file(ask("SELECT formatQuerySingleLine({s:String})", {"s": in_a_row(runs)})):
                tally.slipped.append(sql)
        connection.close()
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    tally = run(options.count, options.seed)
    print(msgspec.json.encode(tally).decode())
    sys.exit(1 if tally.slipped else 0)


if __name__ == "__main__":
    main()
