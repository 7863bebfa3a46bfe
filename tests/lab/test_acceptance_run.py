"""The acceptance run: its verdicts on figures that were worked out by hand, and a whole run with scripted answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from typer.testing import CliRunner

from infra.embedded.child import free_ports
from infra.offline.scripted import HEAVY, LIGHT, SCRIPTED_HEADER
from infra.offline.scripted.server import ScriptedServer
from infra.settings import Settings
from lab.__main__ import app
from lab.acceptance.measures import CaseMeasure, RunMeasures
from lab.acceptance.messages import MESSAGES, ids_of
from lab.acceptance.run import live_question
from lab.acceptance.targets import criteria, verdicts
from newsproof.app import exits
from schemas.errors import ConfigError
from tests.infra.fakes import tavily
from tests.infra.fakes.server import FakeServer, Say
from tests.newsproof.command import newsproof, processes_in

SECONDS = {"recall": 0.1, "plan": 1.5, "search": 1.0, "synthesize": 2.0}


def case(
    seconds: float, cost_usd: float | None, *, path: str = "deep", unpriced: int = 0, requests: int = 1, billed: int = 1
) -> CaseMeasure:
    return CaseMeasure(
        message="m", status="newsproof.signal_synthesized", path=path, took_ms=seconds * 1000, outcome="buy 0.8", calls=5,
        cost_usd=cost_usd, unpriced_calls=unpriced, action="buy", verdict="confirmed", searches=1,
        requests=requests, billed_requests=billed,
    )  # fmt: skip


def run(*cases: CaseMeasure, seconds: dict[str, float] | None = None, answered: int = 20) -> RunMeasures:
    return RunMeasures(
        steps=(), cases=cases, seconds_by_step=SECONDS if seconds is None else seconds,
        searches_asked=20, searches_answered=answered,
    )  # fmt: skip


def missed(measured: RunMeasures) -> list[str]:
    return [v.target for v in verdicts(measured) if not v.met]


def test_a_run_within_every_limit_meets_every_target() -> None:
    good = run(case(5.0, 0.01), case(9.0, 0.02), case(99.0, 9.0, path="preliminary"))
    assert missed(good) == []
    by_name = {v.target: v.measured for v in verdicts(good)}
    assert by_name["mean latency"] == pytest.approx(7.0)
    assert by_name["mean cost"] == pytest.approx(0.015)
    assert by_name["search success"] == 100.0


def test_requests_to_free_providers_count_only_where_none_is_billed() -> None:
    told = run(case(5.0, 0.01, requests=4, billed=1), case(5.0, 0.01, requests=2, billed=2))
    free = next(v for v in verdicts(told) if v.target == "search requests")
    assert (free.met, free.measured, free.note) == (True, 1.5, "billed; 6 sent, 1 message with more than one")


def all_messages(**changed: dict[str, object]) -> RunMeasures:
    """Every message as it must end: searched, and observe where it is made up; those named changed in these fields."""
    cases = []
    for message in MESSAGES:
        ended = {"action": "observe" if message.false else "buy", "searches": int(message.searched)}
        ended["verdict"] = "unconfirmed" if message.unconfirmed else "confirmed"
        for name in ids_of(message):
            fields = {"message": name, **ended, **changed.get(name.replace("-", "_"), {})}
            cases.append(msgspec.structs.replace(case(5.0, 0.01), **fields))
    return run(*cases)


def test_the_lines_of_the_requirements_are_searched_and_made_up_news_ends_with_observe() -> None:
    lines = {
        "Coinbase 即将上线 XYZ 代币,内部人士透露下周公布",
        "SEC 批准比特币现货 ETF,将于下周开始交易",
        "XXX DeFi 协议遭受闪电贷攻击,损失超过 $100M USDC",
    }
    assert {m.zh for m in MESSAGES if m.searched} == lines
    assert [(c.met, c.measured) for c in criteria(all_messages())] == [(True, 6), (True, 2), (True, 6)]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"rumour_en": {"searches": 0}}, ["not so: rumour-en", "", ""]),
        ({"policy_zh": {"searches": 0}, "hack_zh": {"searches": 0}}, ["not so: policy-zh, hack-zh", "", ""]),
        ({"rumour_zh": {"verdict": "likely"}}, ["", "not so: rumour-zh", ""]),
        ({"hack_en": {"action": "sell"}}, ["", "", "not so: hack-en"]),
        ({"airdrop_zh": {"action": "", "verdict": ""}}, ["", "", "not so: airdrop-zh"]),
    ],
)
def test_a_criterion_that_does_not_hold_names_the_messages(
    changed: dict[str, dict[str, object]], says: list[str]
) -> None:
    found = criteria(all_messages(**changed))
    assert [c.note for c in found] == says
    assert [c.met for c in found] == [not note for note in says]


def test_a_message_that_is_missing_meets_no_criterion() -> None:
    assert [(c.met, c.measured) for c in criteria(run())] == [(False, 0)] * 3


@pytest.mark.slow
async def test_a_run_measures_every_message_is_simulated_and_uses_no_key(tmp_path: Path) -> None:
    async with FakeServer(Say(status=500)) as server:
        keys = {"GEMINI_API_KEY": "k", "TAVILY_API_KEY": "t"}
        env = keys | {"GEMINI_BASE_URL": server.url, "TAVILY_BASE_URL": server.url}
        done = await asyncio.to_thread(
            newsproof, "acceptance", "--json", module="lab", cwd=tmp_path, env=env, timeout_s=600
        )
        assert server.requests == [], "a key alone makes no run paid"
    assert done.returncode in (exits.OK, exits.FINDING), done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["max_cost_usd"] is None
    assert report["mode"].startswith("SIMULATED") and "SIMULATED" in done.stderr
    assert (report["messages"], report["failed"]) == (16, 0)
    assert {c["message"] for c in report["cases"] if c["path"] == "deep"} >= {
        "hack-zh",
        "hack-en",
        "depeg-zh",
        "depeg-en",
    }
    steps = {s["step"]: s for s in report["steps"]}
    assert steps["triage"]["calls"] == 32, "a check for copies and a judgement of each message"
    for name in ("triage", "plan", "synthesize"):
        assert steps[name]["input_tokens"] > 0 and steps[name]["cost_usd"] > 0 and steps[name]["p95_ms"] > 0
    assert {t["target"] for t in report["targets"]} == {
        *("mean cost", "mean latency", "mean recall", "mean plan", "mean search", "mean synthesize"),
        *("search requests", "search success"),
    }
    assert [c["met"] for c in report["criteria"]] == [True] * 3, report["criteria"]
    assert processes_in(tmp_path) == []


# Live


class Unmarked(ScriptedServer):
    """A server of OpenAI's wire shape that does not say that it is scripted."""

    async def _complete(self, request: web.Request) -> web.Response:
        said = await super()._complete(request)
        del said.headers[SCRIPTED_HEADER]
        return said


@pytest.mark.parametrize(
    ("env", "status", "says"),
    [
        ({}, exits.USAGE, "set GEMINI_API_KEY, or MODEL_LIGHT"),
        ({"GEMINI_API_KEY": "k", "TAVILY_API_KEY": "two words"}, exits.USAGE, "TAVILY_API_KEY"),
        ({"GEMINI_API_KEY": "k"}, exits.USAGE, "at most 0.5 USD, and no terminal is open to confirm it: add --yes"),
        ({"MODEL_LIGHT": "ollama:q", "MODEL_HEAVY": "ollama:q"}, exits.USAGE, "ollama serve"),
    ],
)
def test_live_needs_providers_that_can_be_asked_and_a_yes(
    tmp_path: Path, env: dict[str, str], status: int, says: str
) -> None:
    (port,) = free_ports(1)
    nobody = {"OLLAMA_BASE_URL": f"http://127.0.0.1:{port}/v1"}
    with contextlib.chdir(tmp_path):
        done = CliRunner().invoke(app, ["acceptance", "--live", "--max-cost", "0.5"], env=nobody | env)
    assert done.exception is not None
    assert (exits.status_of(done.exception), done.stdout) == (status, "")
    assert says in str(done.exception) and not (tmp_path / ".data").exists()


async def live_run(cwd: Path, max_cost: str) -> tuple[dict[str, Any], int, str]:
    """Run it against local servers, whose models are free; return the report, the searches billed, and standard error."""
    async with Unmarked() as models, FakeServer(tavily.results(tavily.item())) as searching:
        env = {
            **{"OPENAI_GATEWAYS": f"own={models.url}", "MODEL_LIGHT": f"own:{LIGHT}", "MODEL_HEAVY": f"own:{HEAVY}"},
            **{"TAVILY_API_KEY": "t", "TAVILY_BASE_URL": searching.url, "TOOL_SCRAPE_ENABLED": "false"},
        }
        arguments = ("acceptance", "--live", "--max-cost", max_cost, "--yes", "--json")
        done = await asyncio.to_thread(newsproof, *arguments, module="lab", cwd=cwd, env=env, timeout_s=600)
        billed = len(searching.requests)
    assert done.returncode in (exits.OK, exits.FINDING), done.stderr
    return json.loads(done.stdout.splitlines()[-1]), billed, done.stderr


@pytest.mark.long
@pytest.mark.slow
async def test_a_live_run_costs_no_more_than_it_may(tmp_path: Path) -> None:
    report, billed, said = await live_run(tmp_path, "0.05")
    assert f"This sends 16 messages to own:{LIGHT}, own:{HEAVY}; tavily; at most 0.05 USD." in said
    assert report["mode"].startswith("live") and (report["messages"], report["failed"]) == (16, 0)
    assert billed == 6, "0.05 USD are room for six searches of 0.008 USD"
    assert report["cost_usd"] == pytest.approx(0.008 * billed)
    assert report["billed_requests"] == report["requests"] == billed
    assert (report["searches"], report["max_cost_usd"], report["unpriced_calls"]) == (billed, 0.05, 0)
    assert processes_in(tmp_path) == []


def test_a_cost_that_pays_no_triage_is_refused_before_anything_starts() -> None:
    at = Settings(_env_file=None, gemini_api_key="g", newsproof_mode="live")  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=r"a triage alone may cost 0\.0.* raise it"):
        live_question(at, 0.0001)
    assert "at most 1 USD" in live_question(at, 1.0)
