"""The ``run`` script on a checkout of its own: a fresh machine's first minutes, and what may go wrong in them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
LOCKS = ("requirements.lock", "requirements-dev.lock")
# Stands in for the command line: tells what it was given.
MAIN = """
import os, sys, time
print(os.getpid(), os.getcwd(), *sys.argv[1:], sep="\\n", flush=True)
if sys.argv[1:] == ["wait"]:
    time.sleep(600)
"""


def make_checkout(folder: Path) -> Path:
    """A checkout with nothing to install, so that no test waits for a network."""
    (folder / "newsproof").mkdir(parents=True)
    (folder / "newsproof" / "__main__.py").write_text(MAIN)
    (folder / "lab").mkdir()
    (folder / "lab" / "__main__.py").write_text(MAIN.replace("os.getpid()", '"the lab"'))
    shutil.copy(CHECKOUT / "run", folder / "run")
    for lock in LOCKS:
        (folder / lock).write_text("# Nothing.\n")
    return folder


def clean_environment(**more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return {**kept, "NEWSPROOF_PYTHON": sys.executable, "PIP_NO_INDEX": "1", **more}


def run(checkout: Path, *arguments: str, cwd: Path = Path("/"), **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(checkout / "run"), *arguments],
        cwd=cwd,
        env=clean_environment(**more),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def without_pythons(folder: Path, **fakes: str) -> str:
    """A PATH with the few tools that the script uses and, for Pythons, only the given shell scripts."""
    folder.mkdir()
    for tool in ("sh", "dirname", "mkdir", "rm", "cat", "sleep", "awk"):
        found = shutil.which(tool)
        assert found is not None
        (folder / tool).symlink_to(found)
    for name, script in fakes.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return str(folder)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout, its path with a space, whose environment two concurrent first runs have made, past a broken Python."""
    parent = tmp_path_factory.mktemp("with a space")
    folder = make_checkout(parent / "check out")
    path = without_pythons(parent / "bin", **{"python3.13": "exit 127", "python3": f'exec "{sys.executable}" "$@"'})
    first_runs = [
        subprocess.Popen(
            [str(folder / "run"), "demo"],
            env=clean_environment(PATH=path, NEWSPROOF_PYTHON=""),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    said = [process.communicate(timeout=120) for process in first_runs]
    assert [process.returncode for process in first_runs] == [0, 0], said
    assert "".join(err for _, err in said).count("making the environment") == 1, said
    assert all(out.endswith("demo\n") for out, _ in said)
    return folder


def test_arguments_pass_through_whole_and_the_working_directory_is_kept(checkout: Path) -> None:
    done = run(checkout, "publish", "a file.jsonl", "--flag=x y", "")
    assert done.stdout.splitlines()[1:] == ["/", "publish", "a file.jsonl", "--flag=x y", ""]


def test_a_folder_of_the_same_name_in_the_working_directory_is_not_ours(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "newsproof").mkdir()
    (tmp_path / "newsproof" / "__main__.py").write_text("print('the wrong one')")
    assert run(checkout, "demo", cwd=tmp_path).stdout.splitlines()[1:] == [str(tmp_path), "demo"]


@pytest.mark.parametrize("command", ["acceptance", "bench", "chaos", "eval", "gate-example", "hostile"])
def test_what_puts_it_to_the_test_goes_to_the_lab(checkout: Path, command: str) -> None:
    done = run(checkout, command, "--json", "a b")
    assert done.stdout.splitlines() == ["the lab", "/", command, "--json", "a b"]


def test_a_later_run_installs_nothing_and_says_nothing(checkout: Path) -> None:
    assert run(checkout, "demo").stderr == ""


def test_alone_it_shows_the_help(checkout: Path) -> None:
    assert run(checkout).stdout.splitlines()[-1] == "--help"


def test_a_changed_lock_file_is_installed_anew(checkout: Path) -> None:
    (checkout / "requirements.lock").write_text("# Still nothing.\n")
    assert "installing the pinned packages" in run(checkout, "demo").stderr
    assert run(checkout, "demo").stderr == ""


@pytest.mark.slow
def test_a_failed_installation_starts_nothing_and_is_tried_again(checkout: Path) -> None:
    lock = checkout / "requirements.lock"
    before = lock.read_text()
    lock.write_text(f"absent-package==1.0 --hash=sha256:{'0' * 64}\n")
    for _ in range(2):
        done = run(checkout, "demo")
        assert (done.returncode, done.stdout) == (1, "")
        assert "the installation failed" in done.stderr
    lock.write_text(before)
    assert run(checkout, "demo").returncode == 0


def test_the_lock_of_a_killed_run_is_passed_by(checkout: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    (checkout / ".venv.lock").mkdir()
    (checkout / ".venv.lock" / "pid").write_text(f"{ended.pid}\n")
    (checkout / ".venv" / "requirements.lock.stamp").unlink(missing_ok=True)
    assert run(checkout, "demo").returncode == 0
    assert not (checkout / ".venv.lock").exists()


def test_signals_arrive_at_the_program_itself(checkout: Path) -> None:
    run(checkout, "demo")
    with subprocess.Popen(
        [str(checkout / "run"), "wait"], env=clean_environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) == process.pid
        process.send_signal(signal.SIGTERM)
    assert process.returncode == -signal.SIGTERM


FOUR_PROCESSES = ["-n", "4", "--dist", "loadfile", "--no-loadscope-reorder"]


@pytest.mark.parametrize(
    ("given", "pytest_gets"),
    [
        ((), [*FOUR_PROCESSES, "-m", "not slow"]),
        (("--all",), FOUR_PROCESSES),
        (("--all", "-k", "a b"), [*FOUR_PROCESSES, "-k", "a b"]),
        (("--foreign", "-x"), ["-m", "foreign", "-rs", "-x"]),
        (("--foreign", "freqtrade", "-x"), ["-m", "foreign", "-rs", "-k", "freqtrade", "-x"]),
        (("--foreign", "tests/foreign"), ["-m", "foreign", "-rs", "tests/foreign"]),
        (("tests/agents", "-k", "a b"), ["tests/agents", "-k", "a b"]),
        (("",), [""]),
    ],
)
def test_the_word_test_gives_pytest_the_quick_set_all_tests_or_what_was_asked_for(
    checkout: Path, tmp_path: Path, given: tuple[str, ...], pytest_gets: list[str]
) -> None:
    # No pytest is installed in this checkout: a stand-in tells where it runs, and with what.
    (tmp_path / "pytest.py").write_text("import os, sys; print(os.getcwd(), *sys.argv[1:], sep='\\n')")
    done = run(checkout, "test", *given, PYTHONPATH=str(tmp_path))
    assert done.stdout.splitlines() == [str(checkout), *pytest_gets]


@pytest.mark.slow
def test_the_quick_set_kills_a_process_and_starts_another() -> None:
    [chosen] = re.findall(r"-m '(.+)' ;;", (CHECKOUT / "run").read_text())
    kills = "tests/streams/sink/test_sink_kills.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--override-ini=addopts=", "--collect-only", "-q", "-m", chosen, kills],
        cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    held = [line for line in done.stdout.splitlines() if line.startswith(kills)]
    assert held == [f"{kills}::test_after_kills_at_a_boundary_every_event_is_in_the_tables_once[sink:inserted-2]"]


def test_without_a_python_it_says_what_to_install(tmp_path: Path) -> None:
    # A shim that is there and does not work, as pyenv's are.
    path = without_pythons(tmp_path / "bin", python3="exit 127")
    done = run(make_checkout(tmp_path / "checkout"), "demo", PATH=path, NEWSPROOF_PYTHON="")
    assert done.returncode == 1
    assert "no Python >= 3.11 found" in done.stderr
    assert "apt install python3" in done.stderr
    assert not (tmp_path / "checkout" / ".venv.lock").exists()


@pytest.mark.parametrize(("named", "python"), [("", "python3"), ("my-python", "my-python")])
def test_without_the_venv_module_it_says_what_to_install(tmp_path: Path, named: str, python: str) -> None:
    without_venv = 'case "$2" in *ensurepip*) exit 1;; esac'
    path = without_pythons(tmp_path / "bin", **dict.fromkeys(("python3", "my-python"), without_venv))
    done = run(make_checkout(tmp_path / "checkout"), "demo", PATH=path, NEWSPROOF_PYTHON=named)
    assert done.returncode == 1
    assert f"{python} lacks its venv module" in done.stderr
    assert "apt install python3-venv" in done.stderr


@pytest.mark.skipif(shutil.which("dash") is None, reason="dash is not installed here")
def test_the_script_is_plain_posix_shell() -> None:
    subprocess.run(["dash", "-n", str(CHECKOUT / "run")], check=True)


@pytest.mark.parametrize("name", LOCKS)
def test_lock_files_pin_every_package_by_hash_and_name_no_index(name: str) -> None:
    text = (CHECKOUT / name).read_text()
    entries = re.split(r"\n(?=\S)", text.strip())
    assert len(entries) > 50
    assert all(re.match(r"[a-z0-9._-]+==\S+", e) and "--hash=sha256:" in e for e in entries)
    assert "://" not in text
    assert not re.search(r"^\s*(-i|-f|--(extra-)?index-url|--find-links|--trusted-host)", text, re.M)


def test_the_development_set_holds_the_runtime_set() -> None:
    runtime, development = (set(re.split(r"\n(?=\S)", (CHECKOUT / n).read_text().strip())) for n in LOCKS)
    assert runtime <= development


@pytest.mark.slow
def test_an_installation_says_nothing_when_all_is_well() -> None:
    # What ./run gives pip, on packages that are there already, so that no index is asked. pip must not resolve anew what
    # uv resolved: pip 23 does not find an extra that a package spells "html-clean" and another asks for as "html_clean".
    told = re.search(r"-m pip install ((?:.*\\\n)*.*)\"\$@\"", (CHECKOUT / "run").read_text())
    more = re.search(r"pip_install (--no-build-isolation .*--requirement) ", (CHECKOUT / "run").read_text())
    assert told is not None and more is not None
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", *told[1].replace("\\\n", "").split(), *more[1].split(), LOCKS[1]],
        cwd=CHECKOUT, env=clean_environment(), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.security
def test_what_has_no_wheel_is_built_by_the_setuptools_of_the_lock_and_by_nothing_newer() -> None:
    """pip would fetch build tools of its own choice, without a hash: ``--require-hashes`` does not reach them."""
    for file in ("run", "infra/docker/Dockerfile"):
        text = (CHECKOUT / file).read_text()
        (first, every) = re.findall(r"pip[ _]install .*--requirement \S+", text)
        assert "--only-binary :all:" in first and "--no-build-isolation" in every, file
        (program,) = re.findall(r"awk '([^']+)'", text)
        for lock in LOCKS:
            told = subprocess.run(["awk", program, lock], cwd=CHECKOUT, capture_output=True, text=True, check=True)
            assert re.fullmatch(r"setuptools==\S+( \\\n    --hash=sha256:[0-9a-f]{64})+\n", told.stdout), file


@pytest.mark.slow
def test_what_the_locks_list_needs_nothing_that_they_do_not_list() -> None:
    # Nothing else sees to it: pip installs the lists as they are.
    done = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_direct_dependency_is_locked_at_its_version() -> None:
    import tomllib

    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    locked = (CHECKOUT / "requirements-dev.lock").read_text()
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    missing = [w for w in wanted if f"\n{w.split(';')[0].strip()} " not in "\n" + locked]
    assert not missing, "run `uv pip compile` as CONTRIBUTING.md says"
