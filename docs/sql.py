"""Write into docs/sql.md what its statements print now.

    ./run demo && ./run outcomes import --sample && .venv/bin/python docs/sql.py [DATA_DIR]

The statements run as `./run sql` runs them, on the data directory given (the demo's without one).
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
import sys
from pathlib import Path

PAGE = Path(__file__).with_name("sql.md")
sys.path.insert(0, str(PAGE.parents[1]))

from newsproof.app.data_access import database  # noqa: E402
from newsproof.app.invocation import Invocation  # noqa: E402
from newsproof.cli.read.tables import ask, print_rows  # noqa: E402

BLOCK = re.compile(r'```sh\n((?:\./run sql "[^\n]+"\n)+)```\n```text\n(.*?)```', re.DOTALL)
STATEMENT = re.compile(r'^\./run sql "(.+)"$', re.MULTILINE)


def statements(page: str) -> list[str]:
    """Return every statement of the page, in order."""
    return [statement for block in BLOCK.finditer(page) for statement in STATEMENT.findall(block[1])]


async def printed(invocation: Invocation, wanted: list[str]) -> dict[str, str]:
    """Return what each statement prints."""
    from newsproof.cli.read.tables import Format

    found = {}
    async with database(invocation, admin=True) as client:
        for statement in wanted:
            result = await ask(client, statement, {}, admin=True)
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                if result is not None:
                    print_rows(result, Format.table)
            found[statement] = "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
    return found


def main() -> None:
    """Run the statements and rewrite the page."""
    page, invocation = PAGE.read_text("utf-8"), Invocation()
    if len(sys.argv) > 1:
        invocation.data_dir = Path(sys.argv[1])
    found = asyncio.run(printed(invocation, statements(page)))

    def with_output(block: re.Match[str]) -> str:
        text = "".join(found[statement] for statement in STATEMENT.findall(block[1]))
        return f"```sh\n{block[1]}```\n```text\n{text}```"

    PAGE.write_text(BLOCK.sub(with_output, page), "utf-8")


if __name__ == "__main__":
    main()
