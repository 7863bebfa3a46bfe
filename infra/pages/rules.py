"""What the rules of a site for robots (RFC 9309) say of one address."""

from __future__ import annotations

import re

from protego import Protego

AGENT = "Newsproof"
MAX_RULES = 2_000
MAX_WILDCARDS = 8
_RULE = re.compile(r"\s*(?:allow|di\w+|user[- ]?agent)\b(.*)", re.IGNORECASE)
"""A line that is a rule or names a robot, also in the misspellings that Protego knows."""


def allowed_by(rules: bytes, url: str) -> bool:
    """Whether the rules of a file let us open an address.

    A file of more than :data:`MAX_RULES` rules, or with more than :data:`MAX_WILDCARDS` wildcards in one, lets nothing be
    opened: nobody means it, and matching it takes the time that it asks for.
    """
    text = rules.decode("utf-8", "replace").removeprefix("\ufeff")
    found = [rule[1] for line in text.splitlines() if (rule := _RULE.match(line.partition("#")[0]))]
    if len(found) > MAX_RULES or any(rule.count("*") > MAX_WILDCARDS for rule in found):
        return False
    return bool(Protego.parse(text).can_fetch(url, AGENT))
