"""Print how an outage goes.

python -m newsproof.outage [search|heavy|light] [--fallback] [--kind unavailable|timeout|rate_limit|network]
"""

from __future__ import annotations

import argparse
from typing import get_args

from newsproof.logs import configure_logs
from newsproof.outage import Trouble, outage
from newsproof.terminal import guard_output

parser = argparse.ArgumentParser(
    prog="python -m newsproof.outage", description="A provider is away for ten simulated minutes."
)
parser.add_argument("trouble", nargs="?", default="search", choices=get_args(Trouble), help="who is away")
parser.add_argument("--fallback", action="store_true", help="another provider stands behind it (models only)")
parser.add_argument("--kind", default="unavailable", choices=["unavailable", "timeout", "rate_limit", "network"])
chosen = parser.parse_args()
guard_output()
configure_logs()
print(outage(chosen.trouble, fallback=chosen.fallback, kind=chosen.kind).table())
