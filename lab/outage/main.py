"""``lab outage``: runs one outage and prints its table."""

from __future__ import annotations

import argparse
from typing import get_args

from lab.outage import Trouble, outage
from newsproof.app.logging_setup import configure_logs


def main(argv: list[str] | None = None) -> int:
    """Run one outage and print it minute by minute."""
    parser = argparse.ArgumentParser(
        prog="python -P -m lab outage",
        description="Simulate ten minutes without a provider and print the effect minute by minute.",
    )
    parser.add_argument("trouble", nargs="?", default="search", choices=get_args(Trouble), help="provider that is down")
    parser.add_argument("--fallback", action="store_true", help="configure a fallback provider (models only)")
    parser.add_argument("--kind", default="unavailable", choices=["unavailable", "timeout", "rate_limit", "network"])
    parser.add_argument(
        "--says-until", action="store_true", help="failures say when the outage ends, as a daily quota does"
    )
    chosen = parser.parse_args(argv)
    configure_logs()
    print(outage(chosen.trouble, fallback=chosen.fallback, kind=chosen.kind, says_until=chosen.says_until).table())
    return 0
