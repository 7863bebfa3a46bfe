"""Candidate prompts and models: how options name them, and what is refused in words that say what there is."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace
from typer.testing import CliRunner

from agents.prompts import all_prompts, load_prompts
from evaluation.replay.candidates import candidate_models, candidate_prompts, chosen_prompts, with_models
from evaluation.runs.plan import RunPlan
from infra.settings import Settings, load_settings
from newsproof.app import exits
from newsproof.cli.main import app
from schemas.calibration import CalibrationMap, Curve
from schemas.config import Snapshot
from schemas.errors import ConfigError
from streams.replay import Change
from tests.newsproof.command import newsproof

AT = datetime(2024, 6, 1, tzinfo=UTC)
FILE = "---\nname: synthesize\nversion: 9\ntier: heavy\nschema: synthesize.v3.schema.json\n---\nSay {{language}}.\n"


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("synthesize", "write NAME=VERSION or NAME=FILE"),
        ("nobody=v1", "there is no prompt 'nobody': write one of critique, .*synthesize"),
        ("synthesize=v77", "has no version 'v77': write one of v1"),
        ("synthesize=nowhere.md", "the file cannot be read"),
    ],
)
def test_an_unknown_prompt_is_refused_with_what_there_is(option: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        chosen_prompts([option])


def test_a_prompt_is_chosen_by_version_with_or_without_v() -> None:
    (first,) = (p for p in all_prompts() if p.name == "plan" and p.version == "1")
    assert chosen_prompts(["plan=v1"]) == chosen_prompts(["plan=1"]) == {"plan": first}


def test_a_prompt_may_be_a_file_that_names_the_schema_of_ours(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.md", FILE)
    chosen = chosen_prompts([f"synthesize={path}"])["synthesize"]
    assert (chosen.version, chosen.text) == ("9", "Say {{language}}.\n")
    assert chosen.schema == load_prompts()["synthesize"].schema
    assert chosen.hash not in {p.hash for p in all_prompts()}


def test_a_candidate_is_asked_as_model_options_say_for_its_task_and_no_other_prompt_changes(tmp_path: Path) -> None:
    settings = Settings(  # type: ignore[call-arg]
        _env_file=None, model_options="synthesize=temperature:0.7|max_output_tokens:900, plan=temperature:1"
    )
    chosen = candidate_prompts(settings, [f"synthesize={write(tmp_path / 'mine.md', FILE)}"])
    assert list(chosen) == ["synthesize"]
    assert (chosen["synthesize"].temperature, chosen["synthesize"].max_output_tokens) == (0.7, 900)
    (plain,) = chosen_prompts([f"synthesize={tmp_path / 'mine.md'}"]).values()
    assert (chosen["synthesize"].text, chosen["synthesize"].hash != plain.hash) == (plain.text, True)
    assert candidate_prompts(settings, ()) == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (FILE.replace("synthesize", "plan", 1), "is the prompt 'plan', not 'synthesize'"),
        ("Say something.\n", "begin it with front matter"),
        (FILE.replace("tier: heavy\n", ""), "the front matter lacks tier"),
        (FILE.replace("heavy", "huge"), "write light or heavy"),
    ],
)
def test_a_file_that_is_no_prompt_of_that_name_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        chosen_prompts([f"synthesize={write(tmp_path / 'mine.md', text)}"])


@pytest.mark.parametrize(
    "arguments", [("backtest", "run", "--sample-log", "--dry-run"), ("case", "replay", "h09", "--sample-log")]
)
def test_commands_that_decide_again_refuse_model_options_that_cannot_be(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MODEL_OPTIONS", "synthesize=warmth:1")
    said = CliRunner().invoke(app, [*arguments, "--prompt", "synthesize=v1"]).exception
    assert isinstance(said, ConfigError) and "MODEL_OPTIONS has 'synthesize=warmth:1'" in str(said)


@pytest.mark.parametrize(
    "arguments", [("backtest", "run", "--sample-log"), ("case", "replay", "h09", "--sample-log"), ("shadow",)]
)
@pytest.mark.slow
def test_commands_that_decide_again_refuse_a_prompt_that_no_model_would_read(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    # A process each: a service that ends makes sure that its process does.
    said = newsproof(*arguments, "--prompt", "synthesize=v1", cwd=tmp_path, env={"NEWSPROOF_MODE": "offline"})
    assert said.returncode == exits.USAGE
    assert "offline mode uses rules that read no prompt" in said.stderr and "model-server --wait-env" in said.stderr
    assert not list(tmp_path.iterdir())  # before any server


def test_a_change_that_no_snapshot_has_is_refused() -> None:
    with pytest.raises(ConfigError, match="nonsense: no setting"):
        Change(settings={"nonsense": 1}).applied_to(Snapshot())
    with pytest.raises(ConfigError, match="does not take"):
        Change(settings={"max_steps": "many"}).applied_to(Snapshot())
    assert Change(settings={"max_steps": 3}).applied_to(Snapshot()).max_steps == 3
    assert RunPlan(run_id="aa").change.applied_to(Snapshot()) == Snapshot()


def live(**more: Any) -> Settings:
    return load_settings(newsproof_mode="live", gemini_api_key="g", openai_api_key="o", **more)


@pytest.mark.parametrize(
    "option", ["synthesize", "nonsense=openai:m", "synthesize=nobody:m", "synthesize=openai:a|openai:b", "synthesize="]
)
def test_a_model_that_cannot_be_asked_is_refused_by_the_name_of_the_option(option: str) -> None:
    with pytest.raises(ConfigError, match=f"--model '{option.replace('|', '.')}'"):
        candidate_models(live(), [option])


def test_another_model_replaces_the_settings_route_of_its_task_alone() -> None:
    settings = live(model_tasks="synthesize=gemini:a|gemini:b, plan=gemini:c")
    assert with_models(settings, {"synthesize": "openai:m"}).model_tasks == " plan=gemini:c,synthesize=openai:m"
    assert with_models(settings, {}) is settings


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_changed_setting_keeps_the_map_that_the_case_pinned() -> None:
    curve = Curve(target="stood", stories=60, intercept=0.1, slope=0.9, covariance=(0.1, 0.0, 0.1))
    pinned = CalibrationMap(as_of=datetime(2026, 1, 1, tzinfo=UTC), curves=(curve,))
    for calibration in (UNSET, None, pinned):
        before = Snapshot(calibration=calibration)
        changed = Change(settings={"max_steps": 3}).applied_to(before)
        assert changed == replace(before, max_steps=3)
    with pytest.raises(ConfigError, match="calibration: no setting of a snapshot"):
        Change(settings={"calibration": None}).applied_to(Snapshot())
