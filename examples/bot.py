"""A bot: prints what there is to act on, of confidence 0.7 or more, and every retraction.

Needs `./run up` (or another installation); Ctrl-C ends it.
"""

import argparse
import asyncio
import contextlib
import logging
import sys

from newsproof import NewsproofError, subscribe


async def main(include_offline: bool) -> None:
    async for signal in subscribe(min_confidence=0.7, group="example-bot"):
        if signal.provider_mode == "live":
            print(signal, flush=True)  # safe for a terminal; the fields themselves hold what strangers wrote
        elif include_offline:
            print("trying out, not trading:", signal, flush=True)
        else:
            print("skipped a signal that is not live; --include-offline shows these, too", file=sys.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--include-offline", action="store_true", help="also print what no real model has judged")
    options = parser.parse_args()
    logging.basicConfig(format="%(message)s")
    logging.getLogger("newsproof").setLevel("INFO")  # says when it is connected, and waits
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(main(options.include_offline))
    except NewsproofError as exc:
        print(exc, file=sys.stderr)
        sys.exit(2)
