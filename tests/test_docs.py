"""The documentation says what is: pictures, examples, paths, tests, settings and commands that it names."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
import typer

from infra.settings import Settings
from newsproof.cli.main import app
from schemas.events import EVENT_TYPES

PROJECT = Path(__file__).parents[1]
ADRS = sorted((PROJECT / "docs" / "adr").glob("*.md"))
PAGES = [
    PROJECT / "README.md",
    PROJECT / "README.zh.md",
    PROJECT / "CONTRIBUTING.md",
    PROJECT / "docs" / "architecture.md",
    PROJECT / "docs" / "getting-started.md",
    PROJECT / "docs" / "getting-started.zh.md",
    PROJECT / "docs" / "verification.md",
    *ADRS,
]
HOW = "run: ./.venv/bin/python docs/generate.py"
RUN_BY_LAB = {"acceptance", "bench", "chaos", "eval", "hostile"}
"""What ``./run`` hands to the lab; a test of the script compares."""
NOT_SETTINGS = {"CLICKHOUSE_PASSWORD", "NEWSPROOF_PYTHON", "CI"}
"""Names in capitals that docker-compose.yml, ./run and .ci/run read; constants of the code are looked up in the code."""


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    path = PROJECT / "docs" / "generate.py"
    spec = importlib.util.spec_from_file_location("generate_docs", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=PAGES, ids=lambda path: path.name)
def page(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


def text_of(page: Path) -> str:
    return page.read_text("utf-8")


def quoted(page: Path) -> list[str]:
    """What stands between single backticks, outside of code blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text_of(page), flags=re.DOTALL))


@pytest.mark.parametrize("page", ["README.md", "README.zh.md", "docs/architecture.md", "docs/research-chat.md"])
def test_pictures_and_code_on_a_page_are_those_of_the_code(generate: ModuleType, page: str) -> None:
    written = text_of(PROJECT / page)
    assert generate.with_blocks(page, written) == written, HOW


def test_a_readme_without_its_markers_is_noticed(generate: ModuleType) -> None:
    with pytest.raises(LookupError, match="bot"):
        generate.with_blocks("README.md", "no marker")


def test_the_description_of_the_public_topics_is_current_and_holds_together(generate: ModuleType) -> None:
    written = text_of(PROJECT / "docs" / "asyncapi.json")
    assert written == generate.asyncapi(), HOW
    document = json.loads(written)
    assert {channel["address"] for channel in document["channels"].values()} == {"newsproof.news", "newsproof.signals"}
    for message in document["components"]["messages"].values():
        payload = message["payload"]["schema"]
        names = set(re.findall(r'"#/\$defs/(\w+)"', json.dumps(payload)))
        assert names and names <= set(payload["$defs"])


def test_the_table_of_what_providers_answer_is_that_of_the_tests(generate: ModuleType) -> None:
    assert text_of(PROJECT / "docs" / "conformance.md") == generate.conformance(), HOW


@pytest.mark.parametrize("page", ["README", "docs/getting-started"])
def test_a_chinese_page_has_the_commands_tables_code_and_links_of_the_english_one(page: str) -> None:
    english, chinese = PROJECT / f"{page}.md", PROJECT / f"{page}.zh.md"
    for part in (blocks_without_comments, tables, links, lambda page: set(quoted(page)), shape):
        assert part(chinese) == part(english), f"change {page}.md and {page}.zh.md together"


@pytest.mark.parametrize("page", ["README.md", "README.zh.md"])
def test_a_readme_is_short(page: str) -> None:
    assert 100 <= len(text_of(PROJECT / page).splitlines()) <= 120


def blocks_without_comments(page: Path) -> list[str]:
    return [re.sub(r" +# .*", "", block) for block in re.findall(r"```.*?```", text_of(page), re.DOTALL)]


def tables(page: Path) -> list[list[set[str]]]:
    """Each row of every table in Markdown, as its cells: what each has in code, in any order."""
    rows = re.findall(r"^\|(.*)\|$", re.sub(r"```.*?```", "", text_of(page), flags=re.DOTALL), re.MULTILINE)
    return [[set(re.findall(r"`([^`]+)`", cell)) for cell in row.split("|")] for row in rows]


def links(page: Path) -> list[str]:
    """Where the links lead, without those to the other language; a heading's anchor has its English name."""
    found = re.findall(r"\]\(([^)\s]+)\)", text_of(page))
    return sorted(link for link in found if not re.match(r"README|.*getting-started(\.zh)?\.md$", link))


def shape(page: Path) -> list[str]:
    """The headings' levels, and where bullets and tables stand between them."""
    return re.findall(r"^(#+|- |\|)", re.sub(r"```.*?```", "", text_of(page), flags=re.DOTALL), re.MULTILINE)


def test_every_link_leads_to_a_file(page: Path) -> None:
    links = [link for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text_of(page)) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_path_that_is_named_exists(page: Path) -> None:
    paths = [
        word for word in quoted(page) if re.fullmatch(r"\.?[\w-]+(/[\w.*-]+)+/?", word) and not word.startswith("/")
    ]
    ours = [word for word in paths if (PROJECT / word.split("/")[0]).exists()]
    assert [word for word in ours if not list(PROJECT.glob(word.rstrip("/")))] == []


@pytest.mark.parametrize(
    "page", sorted({*PAGES, *(PROJECT / "docs").glob("*.md"), PROJECT / "SECURITY.md"}), ids=lambda p: p.name
)
def test_every_test_that_is_named_exists(page: Path) -> None:
    for file, test in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text_of(page)):
        tree = ast.parse((PROJECT / file).read_text("utf-8"))
        there = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert test in there, f"{page.name} names {file}::{test}"
    bare = {word for word in quoted(page) if re.fullmatch(r"test_\w+", word)}
    assert bare - every_test() - {"test_NAME"} == set()


@cache
def every_test() -> set[str]:
    """The name of every test, and of every file of tests."""
    files = list((PROJECT / "tests").rglob("test_*.py"))
    named = {name for file in files for name in re.findall(r"def (test_\w+)", text_of(file))}
    return named | {file.stem for file in files}


def test_every_setting_that_is_named_exists(page: Path) -> None:
    named = {word.split("=")[0] for word in quoted(page) if re.fullmatch(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+(=\S*)?", word)}
    named = {name for name in named if not name.startswith("OPENAI_KEY_")}  # one for each gateway
    unknown = named - {field.upper() for field in Settings.model_fields} - NOT_SETTINGS - constants()
    assert unknown == set()


@cache
def constants() -> set[str]:
    """Every constant that a module of ours defines, by its bare name."""
    modules = [
        path
        for package in ("schemas", "agents", "infra", "streams", "evaluation", "newsproof")
        for path in (PROJECT / package).rglob("*.py")
    ]
    return {name for path in modules for name in re.findall(r"^([A-Z][A-Z0-9_]+)\b.*=", text_of(path), re.MULTILINE)}


def test_every_command_that_is_named_exists(page: Path) -> None:
    by_lab = "|".join(RUN_BY_LAB)
    assert_commands_exist(page, app, rf"(?:\./run(?! (?:{by_lab})\b)|(?<![\w/.-])newsproof)(?! (?:test|is)\b)")


def assert_commands_exist(page: Path, program: typer.Typer, called_by: str) -> None:
    """Each command that follows ``called_by`` on the page, and its subcommand, is one of the program."""
    words = re.findall(called_by + r" ([a-z]+(?:-[a-z]+)*)(?: ([a-z]+(?:-[a-z]+)*))?", "\n".join(code(page)))
    for command, more in words:
        found = typer.main.get_command(program).commands.get(command)  # type: ignore[attr-defined]
        assert found is not None, f"{page.name} names {command}"
        assert not hasattr(found, "commands") or not more or more in found.commands


def code(page: Path) -> list[str]:
    return [*quoted(page), *re.findall(r"```sh\n(.*?)```", text_of(page), re.DOTALL)]


def test_every_event_that_is_named_exists(page: Path) -> None:
    events = {event.__name__ for event in EVENT_TYPES}
    named = {
        w for w in quoted(page) if re.fullmatch(r"(Case|Step|Event|Evidence|Signal|Tool|Pages|Keywords)[A-Z]\w+ed", w)
    }
    assert named <= events


def test_decisions_are_numbered_without_gaps_and_say_what_was_weighed() -> None:
    assert [int(path.name[:4]) for path in ADRS] == list(range(1, len(ADRS) + 1))
    for path in ADRS:
        headings = re.findall(r"^## (.+)$", text_of(path), re.MULTILINE)
        assert headings == ["Context", "Decision", "Alternatives", "Consequences"], path.name
