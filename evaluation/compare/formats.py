"""The formats of a comparison, in a module of their own because the writers import far more."""

from __future__ import annotations

from enum import StrEnum


class ReportFormat(StrEnum):
    """Output format of a comparison."""

    table = "table"
    json = "json"
    md = "md"
    html = "html"
