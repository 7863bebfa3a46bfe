"""The formats of a comparison. Apart from what writes them, which loads far more."""

from __future__ import annotations

from enum import StrEnum


class ReportFormat(StrEnum):
    """How a comparison is printed."""

    table = "table"
    json = "json"
    csv = "csv"
    md = "md"
    junit = "junit"
