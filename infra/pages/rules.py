"""Evaluation of a site's robots.txt (RFC 9309) for one URL."""

from __future__ import annotations

import re

from protego import Protego

AGENT = "Newsproof"
MAX_RULES = 2_000
MAX_WILDCARDS = 8
_RULE = re.compile(r"\s*(?:allow|di\w+|user[- ]?agent)\b(.*)", re.IGNORECASE)
"""A line that is a rule or names a robot, including the misspellings that Protego accepts."""


def allowed_by(rules: bytes, url: str) -> bool:
    """Return whether robots.txt allows our robot to open a URL.

    A file with more than :data:`MAX_RULES` rules, or with more than :data:`MAX_WILDCARDS` wildcards in a rule,
    disallows everything: no legitimate file is like that, and matching it could take arbitrarily long.
    """
    text = rules.decode("utf-8", "replace").removeprefix("\ufeff")
    patterns = [rule[1] for line in text.splitlines() if (rule := _RULE.match(line.partition("#")[0]))]
    if len(patterns) > MAX_RULES or any(rule.count("*") > MAX_WILDCARDS for rule in patterns):
        return False
    return bool(Protego.parse(text).can_fetch(url, AGENT))
