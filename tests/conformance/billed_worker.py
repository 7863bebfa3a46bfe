"""A process that pays: real Gemini adapters behind the real host and budget, until its standard input ends or it is killed.

python -m tests.conformance.billed_worker BOOTSTRAP PASSWORD_FILE PREFIX SERVER_URL NAME
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from decimal import Decimal

import msgspec

from infra.kafka.topics import KafkaAddress
from infra.ports import Ports
from schemas.budget import LimitsSet
from schemas.effects import Trusted
from schemas.topics import Topics
from streams.budget.budget import BudgetLedger
from streams.effects.breakers import BreakerPolicy, Breakers
from streams.effects.host import EffectsHost
from streams.ending import Ending
from streams.wake import Wake
from tests.conformance.driving import MODEL_ASKED
from tests.infra.fakes import gemini

AT_ONCE = 24
TIERS = {"light": "gemini-2.5-flash-lite", "heavy": "gemini-2.5-pro"}
NO_LIMIT = LimitsSet(
    monthly_usd=Decimal(100_000), triage_reserve_usd=Decimal(0), daily_units=0, allow_unpriced=False, by="0"
)
NEVER_OPENS = BreakerPolicy(failures_in_a_row=1_000_000, window_calls=1_000_000)


async def _pay(host: EffectsHost, name: str, numbers: itertools.count[int], ended: asyncio.Event) -> None:
    asked = list(MODEL_ASKED.values())[:3]
    while not ended.is_set():
        n = next(numbers)
        case = f"{name}-{n}"
        padding = "so it was said " * (n % 40)
        effect = msgspec.structs.replace(
            asked[n % 3],
            tier="light" if n % 4 else "heavy",
            parts=(Trusted(f"case {case}: {padding}"),),
            max_output_tokens=200 + 900 * (n % 3),
        )
        await host.perform(effect, case_id=case, head_id="head", attempt=1)


async def _main(bootstrap: str, password_file: str, prefix: str, url: str, name: str) -> None:
    address, topics = KafkaAddress.embedded(bootstrap, password_file), Topics(prefix)
    models = {tier: gemini.adapter(url, model=model) for tier, model in TIERS.items()}
    budget = BudgetLedger(address, topics, NO_LIMIT, Ending(), Wake())
    await budget.start()
    host = EffectsHost(Ports(models=dict(models)), spending=budget, breakers=Breakers(NEVER_OPENS))
    ended, numbers = asyncio.Event(), itertools.count()
    async with asyncio.TaskGroup() as paying:
        for _ in range(AT_ONCE):
            paying.create_task(_pay(host, name, numbers, ended))
        await asyncio.to_thread(sys.stdin.read)
        ended.set()
    await budget.stop()
    await host.close()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
