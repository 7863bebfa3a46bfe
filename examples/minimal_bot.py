"""Print live signals to act on, and retractions (offline: nothing). Needs `./run up`; run it with PYTHONPATH=. .venv/bin/python."""

import asyncio

from newsproof import subscribe


async def main() -> None:
    async for signal in subscribe(min_confidence=0.7, group="my-bot"):
        if signal.provider_mode == "live":  # never trade on offline signals
            print(signal.stage, signal.action, signal.asset, signal.confidence, repr(signal.summary), flush=True)


asyncio.run(main())
