"""What outside providers answer, and what the product must make of it: one row each.

docs/conformance.md is written from this table, and every row is a test of the real adapter over HTTP. To add one, add a row.
"""

from __future__ import annotations

from tests.conformance.general_rows import GENERAL
from tests.conformance.rows import Row

ROWS: tuple[Row, ...] = (*GENERAL,)
ABSENT = {"gdelt": "no adapter of GDELT yet", "searxng": "no adapter of SearXNG yet"}
"""Providers whose adapter is not there yet: all their tests must fail until it is."""
