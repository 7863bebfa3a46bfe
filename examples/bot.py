"""A trading bot in ten lines: buys and sells what was verified. Needs `newsproof up`; Ctrl-C ends it."""

import asyncio

from newsproof import subscribe


async def main() -> None:
    async for signal in subscribe(min_confidence=0.7, group="example-bot"):
        if signal.provider_mode != "live":
            print("trying out, not trading: ", end="")
        what = f"{signal.status} {signal.action} {signal.asset} {signal.confidence:.2f}"
        print(what, signal.summary, signal.links, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
