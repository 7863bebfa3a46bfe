"""The rules of the house that no linter knows: sizes, names, import contracts, and what may not stand in a file."""

from __future__ import annotations

import ast
import gc
import importlib
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

PROJECT = Path(__file__).parents[1]
PACKAGES = ("schemas", "agents", "infra", "streams", "evaluation", "newsproof", "lab")
MODULES = sorted(path for package in PACKAGES for path in (PROJECT / package).rglob("*.py"))
MAX_LINES = 500
"""An alarm, not a measure: a file is as long as one idea, and none so far needed more."""
MAX_STEP_LINES = 120
MAX_FUNCTION_LINES = 40
VAGUE = {"utils", "util", "helpers", "helper", "manager", "base", "common", "misc"}
"""Names that say nothing of what a module holds."""
# Written in two parts, so that this file may be looked at like every other one.
FORBIDDEN = {
    "a folder outside the project": r"\.\./" + "shared",
    "a path of one machine": r"(?<![\w.~-])/(?:" + "home|work|Users" + r")/[A-Za-z]",
    "the address of a package index": r"(?:(?<!emit-)index-url[\s=]|INDEX_"
    + r"URL=|/"
    + r"simple/?\s|find-links[\s=])",
}
TEXT = {".py", ".md", ".toml", ".yml", ".yaml", ".json", ".jsonl", ".sql", ".txt", ".lock", ".sh", ""}


def tracked() -> list[Path]:
    """Every text file of the project: those that git tracks, else (in an archive) all outside hidden folders."""
    git = shutil.which("git")
    listed = subprocess.run([git, "ls-files", "-z"], cwd=PROJECT, capture_output=True, check=False) if git else None
    if listed is not None and listed.returncode == 0:
        found = [PROJECT / name for name in listed.stdout.decode().split("\0") if name]
    else:
        places = [p for p in PROJECT.iterdir() if p.name == ".ci" or not p.name.startswith(".")]
        found = [*places, *(file for place in places if place.is_dir() for file in place.rglob("*"))]
    return [p for p in found if p.is_file() and p.suffix in TEXT]


def name(path: Path) -> str:
    return path.relative_to(PROJECT).as_posix()


@cache
def nodes(path: Path) -> list[ast.AST]:
    """A module's syntax: the module itself first."""
    return list(ast.walk(ast.parse(path.read_text("utf-8"))))


@pytest.fixture(autouse=True, scope="module")
def _forgotten_afterwards() -> Iterator[None]:
    gc.disable()  # of the time that parsing takes, two thirds would go into looking for garbage among the nodes
    yield
    nodes.cache_clear()
    gc.enable()


def lines(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def test_no_file_is_longer_than_one_sitting() -> None:
    too_long = {name(path): count for path in MODULES if (count := lines(path)) > MAX_LINES}
    assert not too_long, f"split by what they do: {too_long}"


def test_test_files_have_names_of_their_own() -> None:
    # Without packages two files of one name cannot be collected together.
    names = Counter(path.name for path in (PROJECT / "tests").rglob("test_*.py"))
    assert [found for found, count in names.items() if count > 1] == []


def test_no_step_is_longer_than_a_page() -> None:
    steps = [path for path in MODULES if re.search(r"^STEP = ", path.read_text("utf-8"), re.MULTILINE)]
    assert len(steps) >= 10
    too_long = {name(path): count for path in steps if (count := lines(path)) > MAX_STEP_LINES}
    assert not too_long, f"move out what is not ask or tell: {too_long}"


def test_no_function_is_longer_than_a_screen() -> None:
    too_long = {
        f"{name(path)}:{node.name}": length
        for path in MODULES
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := _body_lines(node)) > MAX_FUNCTION_LINES
    }
    assert not too_long, f"one thought a function: {too_long}"


def _body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (function.end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_every_module_says_in_its_name_what_it_holds() -> None:
    assert not [name(path) for path in MODULES if VAGUE & set(path.stem.split("_"))]


def test_every_module_says_what_it_is_for_and_defers_its_annotations() -> None:
    silent, eager = [], []
    for path in MODULES:
        tree, *within = nodes(path)
        assert isinstance(tree, ast.Module)
        if tree.body and ast.get_docstring(tree) is None:
            silent.append(name(path))
        defines = any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.AnnAssign) for node in within)
        if defines and "from __future__ import annotations" not in path.read_text("utf-8"):
            eager.append(name(path))
    assert (silent, eager) == ([], [])


def test_every_name_that_a_module_offers_is_there() -> None:
    offering = [path for path in MODULES if re.search(r"^__all__ = ", path.read_text("utf-8"), re.MULTILINE)]
    assert offering
    for path in offering:
        parts = path.relative_to(PROJECT).with_suffix("").parts
        module = importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
        missing = [offered for offered in module.__all__ if not hasattr(module, offered)]
        assert not missing, f"{name(path)} offers {missing}"


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_names(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what])
    found = {
        name(path): match.group(0)
        for path in tracked()
        if (match := pattern.search(path.read_text("utf-8", errors="replace") + "\n")) is not None
    }
    assert not found, f"{what}: {found}"


def imports_of(*packages: str) -> dict[str, set[str]]:
    """Module → the modules of these packages that it imports: inside functions, too, and for types alone."""
    graph = grimp.build_graph(*packages, cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def circle(imports: dict[str, set[str]]) -> list[str]:
    """Modules of which each is imported by the next, the last one being the first; [] when there is no circle."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as exc:
        return list(exc.args[1])
    return []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circle(imports_of(*PACKAGES)) == []


def test_a_circle_through_a_function_or_for_types_alone_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    house = tmp_path / "circular_house"
    house.mkdir()
    (house / "__init__.py").touch()
    (house / "one.py").write_text("from circular_house import two\n")
    (house / "two.py").write_text("def later():\n    from circular_house.three import A\n")
    (house / "three.py").write_text("A = 1\n")
    assert circle(imports_of("circular_house")) == []
    (house / "three.py").write_text("if TYPE_CHECKING:\n    import circular_house.one\n")
    assert set(circle(imports_of("circular_house"))) == {f"circular_house.{name}" for name in ("one", "two", "three")}


IMPURE_BUILTINS = {"open", "input", "print", "exec", "eval", "__import__"}
CLOCKS = {"now", "utcnow", "today"}
"""Both: what no import contract can see."""


def impure_calls(syntax: Iterable[ast.AST]) -> list[str]:
    called = [node.func for node in syntax if isinstance(node, ast.Call)]
    builtins = [f.id for f in called if isinstance(f, ast.Name) and f.id in IMPURE_BUILTINS]
    return builtins + [f.attr for f in called if isinstance(f, ast.Attribute) and f.attr in CLOCKS]


def test_no_step_reads_a_clock_a_file_or_the_terminal() -> None:
    agents = [path for path in MODULES if path.is_relative_to(PROJECT / "agents")]
    assert {name(path): calls for path in agents if (calls := impure_calls(nodes(path)))} == {}
    assert impure_calls(ast.walk(ast.parse("at = datetime.now(UTC); open('x')"))) == ["open", "now"]


def import_contracts(project: Path) -> subprocess.CompletedProcess[str]:
    """Do what a step of its own in ``.ci/run`` does with the checkout itself."""
    return subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as main; main()", "--no-cache"],
        cwd=project,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(project), "COLUMNS": "200", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


POINT_ELSEWHERE = (
    ("agents/verification/triage.py", "import time", "Steps see no clock", "agents.verification.triage -> time"),
    ("agents/core/case.py", "from random import random", "Steps see no clock", "agents.core.case -> random"),
    (
        "agents/text/grammar.py",
        "from importlib import resources",
        "two loaders",
        "agents.text.grammar -> importlib",
    ),
    ("schemas/ids.py", "import agents.core.case", "Imports point one way", "schemas.ids -> agents"),
    (
        "infra/clickhouse/memory.py",
        "import agents.core.case",
        "Imports point one way",
        "infra.clickhouse.memory -> agents",
    ),
    ("streams/sink/sink.py", "import newsproof.app.version", "Imports point one way", "streams.sink.sink -> newsproof"),
    (
        "newsproof/sdk/client.py",
        "import streams.journal.case_reading",
        "plain Kafka clients",
        "newsproof.sdk.client -> streams",
    ),
    ("newsproof/app/servers.py", "import faust", "Faust is known in streams alone", "newsproof.app.servers -> faust"),
    ("newsproof/app/version.py", "import lab.assets", "Product never imports lab", "newsproof.app.version -> lab"),
    (
        "newsproof/report/data.py",
        "import newsproof.web.backend",
        "Folders of newsproof point one way",
        "newsproof.report.data -> newsproof",
    ),
    (
        "newsproof/report/period.py",
        "import evaluation.prices.profit_report",
        "Imports point one way",
        "newsproof.report.period -> evaluation",
    ),
    (
        "evaluation/replay/log_file.py",
        "import evaluation.runs.shadow",
        "in a circle",
        ".replay -> .runs",
    ),
    (
        "infra/kafka/address.py",
        "import infra.embedded.child",
        "Within infra each folder",
        "infra.kafka.address -> infra",
    ),
    ("infra/market/source.py", "import infra.market.outcomes.markets", "in a circle", ".source -> .outcomes"),
)


def test_every_import_that_points_elsewhere_is_found_by_its_contract(tmp_path: Path) -> None:
    shutil.copy(PROJECT / ".importlinter", tmp_path)
    for package in PACKAGES:
        shutil.copytree(PROJECT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    for module, line, _contract, _chain in POINT_ELSEWHERE:
        changed, first = tmp_path / module, "from __future__ import annotations\n"
        changed.write_text(changed.read_text("utf-8").replace(first, f"{first}\n{line}\n", 1))
    done = import_contracts(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    told = done.stdout.partition("Broken contracts\n")[2]
    # A contract's name is underlined; its chains follow.
    _, *by_contract = re.split(r"^(\S.*)\n-{10,}\n", told, flags=re.MULTILINE)
    sections = list(zip(by_contract[::2], by_contract[1::2], strict=True))
    for module, line, contract, chain in POINT_ELSEWHERE:
        found = next((chains for title, chains in sections if contract in title), "")
        assert chain in " ".join(found.split()), (module, line, found)


def test_tests_of_the_product_import_nothing_of_the_lab() -> None:
    """What both use lies in tests, which the lab may import."""
    of_the_product = (path for path in (PROJECT / "tests").rglob("*.py") if "tests/lab/" not in name(path))
    found = [
        name(path) for path in of_the_product if re.search(r"^\s*(from|import) lab\b", path.read_text("utf-8"), re.M)
    ]
    assert not found, "move the test into tests/lab, or what it needs into tests"


PARTS = {
    *("Admission", "Dispatcher", "Gate", "Intake", "Listeners", "Meter", "Parts", "Projector", "RemotePartitions", "Results"),
    *("StepChannels", "TopicFetching", "Watchdog", "Worker", "WorkerSlot", "faust_app"),
}  # fmt: skip
SIMULATED = "lab/outage/worker.py"
"""Puts the parts that need no Kafka together on a log in memory and a virtual clock."""


def makers_of_parts() -> dict[str, set[str]]:
    """Return which modules make which parts of a worker, but for the simulated one."""
    found: dict[str, set[str]] = {}
    for path in (path for path in MODULES if name(path) != SIMULATED):
        for node in nodes(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in PARTS:
                found.setdefault(node.func.id, set()).add(name(path))
    return found


def test_a_worker_is_put_together_in_one_place() -> None:
    assert makers_of_parts() == {part: {"streams/composition.py"} for part in PARTS}


def test_no_part_waits_for_a_callback_that_is_set_from_outside_later() -> None:
    late = [
        f"{name(path)}:{node.lineno}"
        for path in MODULES
        for node in nodes(path)
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Lambda)
        for to in getattr(node, "targets", None) or [node.target]
        if isinstance(to, ast.Attribute) and not to.attr.startswith("_")
    ]
    assert not late, f"give it to the constructor, finished: {late}"
