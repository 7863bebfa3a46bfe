"""Print how an outage goes.

python -m newsproof.outage [search|heavy|light] [--fallback] [--kind unavailable|timeout|rate_limit|network]
"""

from __future__ import annotations

import argparse
import sys
from typing import get_args

import structlog

from newsproof.outage import Trouble, outage

parser = argparse.ArgumentParser(
    prog="python -m newsproof.outage", description="A provider is away for ten simulated minutes."
)
parser.add_argument("trouble", nargs="?", default="search", choices=get_args(Trouble), help="who is away")
parser.add_argument("--fallback", action="store_true", help="another provider stands behind it (models only)")
parser.add_argument("--kind", default="unavailable", choices=["unavailable", "timeout", "rate_limit", "network"])
chosen = parser.parse_args()
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
print(outage(chosen.trouble, fallback=chosen.fallback, kind=chosen.kind).table())
