"""What is asked for wrongly is refused in words that say what there is; stories, cutoffs and plans by example."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from agents.prompts import all_prompts, load_prompts
from evaluation.replay.candidates import candidate_prompts, chosen_prompts
from evaluation.replay.journal import Stories, draw_sample
from evaluation.runs.performer import CostLimit, CostLimitReached
from evaluation.runs.plan import RunPlan, parse_time, run_id_of
from evaluation.runs.run_tables import cutoff_of, cutoffs, known_to_training
from infra.settings import Settings
from newsproof.app import exits
from schemas.config import Snapshot
from schemas.errors import ConfigError
from schemas.events import CaseDropped, Event, EventReceived, RetractionFound
from schemas.ids import text_hash
from schemas.news import News
from streams.replay import Change
from tests.evaluation.backtest.samples import CountingModel, prompt, write
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
    "arguments", [("backtest", "run", "--sample-log", "--dry-run"), ("case", "replay", "h09", "--sample-log")]
)
def test_commands_that_decide_again_refuse_model_options_that_cannot_be(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    said = newsproof(
        *arguments, "--prompt", "synthesize=v1", cwd=tmp_path, env={"MODEL_OPTIONS": "synthesize=warmth:1"}
    )
    assert said.returncode == exits.USAGE
    assert "MODEL_OPTIONS has 'synthesize=warmth:1'" in said.stderr


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


@pytest.mark.parametrize("run_id", ["live", "Upper", "a/b", "", "x" * 61, "-a"])
def test_a_run_id_that_cannot_name_a_topic_is_refused(run_id: str) -> None:
    with pytest.raises(ConfigError, match="--run-id"):
        run_id_of(run_id, Change(), AT)


def test_a_run_without_a_name_is_named_after_its_change() -> None:
    assert run_id_of(None, Change(prompts={"plan": prompt("plan")}), AT) == "plan-v4-20240601-000000"
    assert run_id_of(None, Change(), AT).startswith("aa-")


def test_times_are_utc_and_what_is_none_is_refused() -> None:
    assert parse_time("--from", "2024-06-01") == AT
    assert parse_time("--from", "2024-06-01T02:00:00+02:00") == AT
    with pytest.raises(ConfigError, match="--to 'soon' is no time"):
        parse_time("--to", "soon")


def test_a_sample_keeps_the_order_and_does_not_depend_on_it() -> None:
    cases = [f"case {n}" for n in range(50)]
    some = draw_sample(cases, 5)
    assert len(some) == 5
    assert some == [c for c in cases if c in some]
    assert set(draw_sample(cases[::-1], 5)) == set(some)
    assert draw_sample(cases, 0) == draw_sample(cases, 99) == cases


def test_a_change_that_no_snapshot_has_is_refused() -> None:
    with pytest.raises(ConfigError, match="nonsense: no setting"):
        Change(settings={"nonsense": 1}).applied_to(Snapshot())
    with pytest.raises(ConfigError, match="does not take"):
        Change(settings={"max_steps": "many"}).applied_to(Snapshot())
    assert Change(settings={"max_steps": 3}).applied_to(Snapshot()).max_steps == 3
    assert RunPlan(run_id="aa").change.applied_to(Snapshot()) == Snapshot()


def test_cases_of_one_text_or_of_one_denial_are_one_story() -> None:
    stories = Stories()
    for case_id, event in (
        ("hack", opened("Bybit was hacked, 400,000 ether stolen from a cold wallet on Friday, the exchange says", 0)),
        ("copy", opened("Bybit was hacked: 400,000 ether stolen from a cold wallet on Friday, the exchange said", 1)),
        ("same", opened("unlike anything", 2)),
        ("same", CaseDropped(reason="duplicate", detail="", duplicate_of="hack")),
        ("denial", opened("Bybit denies", 3)),
        ("denial", RetractionFound(signal_id="s", of_case="copy", kind="retracted", reason="")),
        ("edit", opened("Corrected: another sum", 4, edits="denial")),
        ("other", opened("The SEC approves a spot fund for ether", 5)),
        (
            "later",
            opened("Bybit was hacked, 400,000 ether stolen from a cold wallet on Friday, the exchange says", 24 * 40),
        ),
    ):
        stories.add(case_id, event)
    of = {c: stories.of(c) for c in ("hack", "copy", "same", "denial", "edit", "other", "later")}
    assert {of[c] for c in ("hack", "copy", "same", "denial", "edit")} == {"hack"}
    assert (of["other"], of["later"]) == ("other", "later")


def test_chinese_texts_are_compared_by_their_characters() -> None:
    stories = Stories()
    stories.add("a", opened("交易所遭黑客攻击, 冷钱包损失超过十四亿美元, 公司表示用户资产安全", 0))
    stories.add("b", opened("交易所遭黑客攻击, 冷钱包损失超过十四亿美元, 公司称用户资产安全", 1))
    stories.add("c", opened("美国证监会批准以太坊现货基金上市交易", 2))
    assert stories.of("b") == "a"
    assert stories.of("c") == "c"


def test_what_a_model_may_have_read_in_its_training_is_flagged() -> None:
    assert all(c.as_of >= c.cutoff for c in cutoffs())
    end = cutoff_of("models/gemini-2.5-pro")
    assert end is not None
    assert known_to_training([None, "gemini-2.5-pro"], end)
    assert not known_to_training(["gemini-2.5-pro"], end + timedelta(seconds=1))
    assert not known_to_training(["a-model-nobody-knows"], AT)
    assert cutoff_of("gpt-5-mini-2025") != cutoff_of("gpt-5")
    defaults = [Settings.model_fields[name].default for name in ("model_light", "model_heavy")]
    assert all(cutoff_of(name) is not None for name in defaults), "whose news would all pass for unread"


def test_the_cost_limit_holds_the_worst_case_of_what_is_under_way() -> None:
    model = CountingModel(cost=Decimal("0.4"))
    cost_limit = CostLimit(Decimal(1))
    held = [cost_limit.take(None, [model]) for _ in range(2)]  # type: ignore[arg-type]
    with pytest.raises(CostLimitReached):
        cost_limit.take(None, [model])  # type: ignore[arg-type]
    cost_limit.give_back(held[0])
    cost_limit.settle(held[1], ())
    assert cost_limit.take(None, [model]) == Decimal("0.4")  # type: ignore[arg-type]


async def test_a_call_waits_for_those_under_way_before_the_run_is_stopped() -> None:
    model = CountingModel(cost=Decimal("0.6"))
    cost_limit = CostLimit(Decimal(1))
    held = cost_limit.take(None, [model])  # type: ignore[arg-type]
    waiting = asyncio.create_task(cost_limit.taken(None, [model]))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    assert not waiting.done()
    cost_limit.settle(held, ())
    assert await waiting == Decimal("0.6")
    cost_limit.spent += Decimal("0.6")
    cost_limit.give_back(Decimal("0.6"))
    with pytest.raises(CostLimitReached):
        await cost_limit.taken(None, [model])  # type: ignore[arg-type]


def opened(text: str, hour: int, *, edits: str | None = None) -> Event:
    news = News(source="test", text=text, published_at=AT + timedelta(hours=hour))
    return EventReceived(news=news, config_hash="", text_hash=text_hash(text), language="en", edits=edits)
