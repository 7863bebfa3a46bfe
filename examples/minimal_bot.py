"""Print live orders and their retractions. Needs `./run up`; run it with PYTHONPATH=. .venv/bin/python."""

from newsproof import run_bot, subscribe


async def main() -> None:
    async for signal in subscribe(min_confidence=0.7, group="my-bot"):
        if signal.provider_mode == "live":  # never trade on offline signals, so without API keys nothing is printed
            print(signal.stage, signal.action, signal.asset, signal.confidence, repr(signal.summary), flush=True)


run_bot(main())  # asyncio.run, plus short messages: on Ctrl-C, on an error, and once a minute
