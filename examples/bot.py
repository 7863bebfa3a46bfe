"""A bot: prints what there is to act on, of confidence 0.7 or more, and every retraction.

Each minute it says what it skipped and why. Needs `./run up` (or another installation); Ctrl-C ends it.
"""

import argparse
import asyncio
import logging
import sys
from collections import Counter
from datetime import UTC, datetime

from newsproof import Signal, run_bot, subscribe

MIN_CONFIDENCE = 0.7


def why_skip(signal: Signal, acted_on: bool | None, *, include_offline: bool) -> str:
    """Return why not to act on a signal; "" to act. ``acted_on``: on its revision before, None if there was none."""
    if signal.provider_mode != "live" and not include_offline:
        return f"{signal.provider_mode} (--include-offline shows these)"
    if acted_on or (acted_on is None and signal.stage in ("retracted", "superseded")):
        return ""  # an earlier run of this bot may have acted on what is retracted
    if signal.action == "observe":
        return str(signal.verdict)
    if signal.confidence < MIN_CONFIDENCE:
        return f"confidence below {MIN_CONFIDENCE}"
    if signal.asset == "UNKNOWN":
        return "no asset"
    return "old news" if {"late", "backfilled", "expired"} & set(signal.risk_flags) else ""


async def main(include_offline: bool, heartbeat_s: float) -> None:
    skipped: Counter[str] = Counter()
    acted_on: dict[str, bool] = {}

    async def say_alive() -> None:
        while True:
            await asyncio.sleep(heartbeat_s)
            reasons = ", ".join(f"{n} {why}" for why, n in skipped.most_common()) or "none"
            said = f"{datetime.now(UTC):%H:%M:%S} UTC: acted on {sum(acted_on.values())} signals; skipped: {reasons}"
            print(said, file=sys.stderr)

    heartbeat = asyncio.create_task(say_alive())
    try:
        # Every signal, so that the bot can count what it skips. Without these two arguments only orders arrive.
        async for signal in subscribe(verdicts=None, actions=None, group="example-bot"):
            why = why_skip(signal, acted_on.get(signal.signal_id), include_offline=include_offline)
            acted_on[signal.signal_id] = not why
            if why:
                skipped[why] += 1
            else:
                # A signal prints safely on a terminal; its single fields hold what strangers wrote.
                print(signal if signal.provider_mode == "live" else f"trying out, not trading: {signal}", flush=True)
    finally:
        heartbeat.cancel()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--include-offline", action="store_true", help="also print what no real model has judged")
    parser.add_argument("--heartbeat", type=float, default=60, help="seconds between two lines about skipped signals")
    options = parser.parse_args()
    logging.getLogger("newsproof.heartbeat").disabled = True  # this bot's own says more
    run_bot(main(options.include_offline, options.heartbeat))
