"""What outside providers answer, and what the product must make of it: one row each.

docs/conformance.md is written from this table, and every row is a test of the real adapter over HTTP. To add one, add a row.
"""

from __future__ import annotations

from tests.conformance.general_rows import GENERAL
from tests.conformance.model_rows import MODEL_ROWS
from tests.conformance.rows import Row
from tests.conformance.search_rows import SEARCH_ROWS

ROWS: tuple[Row, ...] = (*GENERAL, *MODEL_ROWS, *SEARCH_ROWS)
ABSENT = {"gdelt": "no adapter of GDELT yet", "searxng": "no adapter of SearXNG yet"}
"""Providers whose adapter is not there yet: all their tests must fail until it is."""
