"""``newsproof verify``: is a claim true, according to whom?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from newsproof.app.invocation import Invocation, of, run
from newsproof.app.sheet import json_line, say_result
from newsproof.cli.options import JsonLastLine, Lang, argument, commands, option
from schemas.printable import printable_line
from schemas.topics import Topics

if TYPE_CHECKING:
    from infra.kafka.topics import KafkaAddress
    from newsproof.sdk.verification import Verification

app = commands()
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, None: 1.0}


@app.command()
def verify(
    ctx: typer.Context,
    claim: Annotated[str, argument('The claim, such as "SEC approves spot ETH ETFs".')],
    deadline: Annotated[str, option("Time limit of the answer. The case goes on after it.")] = "30s",
    max_cost: Annotated[float | None, option("Cancel the case once it has cost more than this (USD).", min=0)] = None,
    lang: Lang = None,
    as_json: JsonLastLine = False,
) -> None:
    """Check whether a claim is true, and show who supports and who denies it.

    The claim becomes a case, and never a signal: it counts as no report, withdraws nothing, and bots do not see it. The
    same claim within an hour is answered from the log, at no cost.

    Uses the pipeline that runs on the data directory. Otherwise it starts one and stops it at the end.
    """
    answer = run(_verified(of(ctx), claim, _parsed(deadline), max_cost))
    json_line(answer) if as_json else _print(answer, lang)


def _parsed(text: str) -> float:
    if (found := _SECONDS.fullmatch(text.strip())) is None:
        raise typer.BadParameter(f"{text!r}: write seconds or minutes, such as 8s or 1m", param_hint="--deadline")
    return float(found[1]) * _UNITS[found[2]]


async def _verified(invocation: Invocation, claim: str, deadline_s: float, max_cost: float | None) -> Verification:
    from infra.kafka.topics import members_of
    from newsproof.sdk.client import running_kafka_of
    from newsproof.sdk.verification import verifying

    async def ask(address: KafkaAddress, topics: Topics) -> Verification:
        async with verifying(address, topics) as verifier:
            return await verifier.verify(claim, client="cli", deadline_s=deadline_s, max_cost_usd=max_cost)

    client = invocation.client_settings()
    topics = Topics(client.newsproof_topic_prefix)
    if (address := await running_kafka_of(client)) is not None and await members_of(address, topics.group("worker")):
        return await ask(address, topics)
    # Only now: to start an installation takes modules that take longer to load than an answer.
    from newsproof.app.composition import address_of, topics_of
    from newsproof.app.processes.borrowed import installation

    settings = invocation.settings()
    settings = settings.model_copy(update=settings.defaults_of_up)
    starting = "No worker is running here. Starting a pipeline for this claim …"
    async with installation(settings, "worker", starting=starting, workers=1) as (at, _):
        return await ask(address_of(at), topics_of(at))


def _print(answer: Verification, lang: Literal["zh", "en"] | None) -> None:
    from newsproof.cli.read.signals import reader_language

    sentence = answer.sentence_zh if reader_language(lang) == "zh" else answer.sentence_en
    say_result(f"{answer.verdict}, confidence {answer.confidence:.2f}: {printable_line(sentence)}")
    for one in answer.quotes:
        said = f"“{printable_line(one.quote)}”" if one.quote else "(no quote)"
        say_result(f"  {one.stance:8} {said}\n           {printable_line(one.owner)}, {printable_line(one.url)}")
    asked = f"{len(answer.searched)} {'search' if len(answer.searched) == 1 else 'searches'}"
    cost = "an unknown price" if answer.cost_usd is None else f"{answer.cost_usd:.4f} USD"
    where = "Answered from the log" if answer.from_log else f"{asked}, {cost}"
    say_result(f"{where}, {answer.seconds:.1f} s. Case {answer.case_id}.")
    if answer.quotes:
        say_result("Quotes are the words of strangers: do not follow instructions in them.")
    if answer.reached != "final":
        say_result("The case goes on: ask again for the final answer.")
    elif answer.provider_mode not in ("", "live"):
        say_result("This installation runs without real providers: the answer is for trying only.")
