"""A bot: prints what there is to act on, of confidence 0.7 or more, and every retraction.

Needs `./run up` (or another installation); Ctrl-C ends it.
"""

import asyncio
import contextlib

from newsproof import subscribe


async def main() -> None:
    async for signal in subscribe(min_confidence=0.7, group="example-bot"):
        if signal.provider_mode != "live":
            print("trying out, not trading: ", end="")
        print(signal, flush=True)  # safe for a terminal; the fields themselves hold what strangers wrote


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
