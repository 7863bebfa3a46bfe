"""``newsproof shadow``: finds the running pipeline, shadows it until a signal, and prints the result."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal

from msgspec.structs import replace

from evaluation.backtest.prompts import candidate_prompts
from evaluation.backtest.run.plan import OnMiss, RunPlan, change_name, run_id_of
from evaluation.backtest.run.running import log_and_tables, model_ports
from evaluation.compare.run_rows import Watch
from evaluation.shadow.run import Shadow, ShadowSummary
from infra.ports import Ports
from newsproof.app import exits
from newsproof.app.composition import mode_in_words, refuse_unusable
from newsproof.app.invocation import Invocation, json_line, say_result
from newsproof.app.servers import say_on_stderr as say
from newsproof.app.terminal import command_name
from newsproof.app.version import code_version
from schemas.config import Prompt
from schemas.effects import CallModel
from schemas.errors import ConfigError
from schemas.ids import content_hash
from schemas.printable import counted


async def shadow(
    invocation: Invocation,
    *,
    prompts: Sequence[str],
    budget_usd: float,
    run_id: str | None,
    on_miss: OnMiss,
    watch: Watch,
    as_json: bool,
) -> int:
    """Shadow live traffic until SIGTERM, Ctrl-C, the end of the budget or the stop rule; return the exit status.

    Raises:
        ConfigError: no pipeline runs, the prompt does not exist, another process works on this run, or a price is unknown.
    """
    plan = plan_of(candidate_prompts(invocation.settings(), prompts), run_id, on_miss, watch)
    async with log_and_tables(invocation) as (at, tables):
        if at.own:
            raise ConfigError(
                f"nothing runs in {at.settings.newsproof_data_dir}, so there is no live traffic: start `newsproof "
                "up` first, or name your servers (KAFKA_BOOTSTRAP_SERVERS, CLICKHOUSE_URL)"
            )
        refuse_unusable(at.settings)
        ports = model_ports(at.settings, tables)
        try:
            refuse_unpriced(ports)
            running = Shadow(at, tables, ports, plan, Decimal(str(budget_usd)))
            _heed_signals(running)
            say(f"Shadow run {plan.run_id}: {plan.label}, {mode_in_words(at.settings)}, at most {budget_usd:g} USD.")
            say(
                f"Watched by {watch.metric}; {_ends(watch)}. `newsproof backtest watch {plan.run_id}` says how it stands."
            )
            summary = await running.run()
        finally:
            await ports.close()
    if as_json:
        json_line(summary)
    else:
        _print(summary)
    return exits.OK


def plan_of(prompts: dict[str, Prompt], run_id: str | None, on_miss: OnMiss, watch: Watch) -> RunPlan:
    """Return the plan of a shadow run. Without a ``run_id``, the same plan on the same code resumes the same run.

    Raises:
        ConfigError: no candidate is given, or the run id is invalid.
    """
    if not prompts:
        raise ConfigError("shadow compares a candidate with what is live: write --prompt NAME=VERSION or NAME=FILE")
    plan = RunPlan(run_id="", prompts=prompts, on_miss=on_miss, code_version=code_version(), watch=watch)
    if run_id is None:
        run_id = f"shadow-{change_name(plan.change)}-{content_hash(plan)[:8]}".lower()
    return replace(plan, run_id=run_id_of(run_id, plan.change, datetime.now(UTC)))


def refuse_unpriced(ports: Ports) -> None:
    """Refuse models of unknown price, since no budget can bound their calls.

    Raises:
        ConfigError: a price is unknown.
    """
    least = CallModel(
        task="", tier="light", prompt_name="", prompt_version="", prompt_hash="", system="", parts=(), max_output_tokens=1
    )  # fmt: skip
    for port in (*ports.models.values(), *(p for behind in ports.fallbacks.values() for p in behind)):
        if port.worst_case_usd(least) is None:
            name = f"{port.provider}:{getattr(port, 'model', '')}"
            raise ConfigError(
                f"the price of {name} is unknown, so --budget cannot be kept: add it to infra/models/price_overrides.json"
            )


def _heed_signals(running: Shadow) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, running.stop)


def _ends(watch: Watch) -> str:
    side = "different, on either side" if watch.stop_when == "either" else watch.stop_when
    return f"it ends when that is {side}" if watch.stop_when else "it ends when you stop it"


def _print(summary: ShadowSummary) -> None:
    why = {"exhausted": "the budget is exhausted", "decided": "the stop rule holds"}.get(summary.status, "stopped")
    say_result(
        f"{summary.run_id}: {counted(summary.cases, 'case')}, {summary.replayed} of them judged by the candidate; {summary.executed} "
        f"calls executed, {summary.reused} reused, {summary.missed} missed; {summary.spent_usd:f} of "
        f"{summary.budget_usd:f} USD; {why}"
    )
    say_result(f"Beside live: {command_name()} backtest watch {summary.run_id}")
