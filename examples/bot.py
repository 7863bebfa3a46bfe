"""A trading bot in ten lines: buys and sells what was verified. Needs `newsproof up`; Ctrl-C ends it."""

import asyncio

from newsproof import subscribe


async def main() -> None:
    async for signal in subscribe(min_confidence=0.7, group="example-bot"):
        if signal.provider_mode != "live":
            print("trying out, not trading: ", end="")
        print(signal, flush=True)  # safe for a terminal; the fields themselves hold what strangers wrote


if __name__ == "__main__":
    asyncio.run(main())
