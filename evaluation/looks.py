"""The ledger of looks: who saw the results of which candidates on which cases, and what a further look may claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from evaluation.declaration import parse_declaration
from infra.clickhouse.client import ClickHouse
from infra.clickhouse.record import epoch_ms
from schemas.ids import canonical_json, content_hash
from schemas.printable import counted


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """A look at the results of changed prompts or models: a row of ``looks``, with the number of its ``cases``. Times are UTC.

    ``earlier`` counts the looks before it that share a case with it, whatever they looked at. ``tuned`` counts those of them that
    one of its candidates is not part of and that came before its run began: the candidate may have been made to fit.
    """

    look_id: str
    looked_at: datetime
    runs: tuple[str, ...]
    label: str
    candidates: tuple[str, ...]
    began_at: datetime
    options: str
    cases: int
    earlier: int
    tuned: int

    @property
    def factor(self) -> int:
        """The factor of p values; 0: nothing may be claimed.

        The k-th look at a case counts k (k + 1) / 2 times. So however many follow, chance alone calls a candidate better in 5 % at
        most: 2.5 % in the first look, as much in all others together.
        """
        return 0 if self.tuned else (self.earlier + 1) * (self.earlier + 2) // 2

    @property
    def note(self) -> str:
        """The factor in words; "" for the first look."""
        if self.tuned:
            return (
                f"no p-values: run {self.runs[-1]} began after {counted(self.tuned, 'look')} at another candidate on some of these cases, so "
                "its change may have been fitted to them; compare on cases that nobody has looked at (`backtest run --from` a later "
                "day, or a shadow run)"
            )
        if not self.earlier:
            return ""
        return (
            f"look {self.earlier + 1} at some of these cases (newsproof backtest trials): p-values are multiplied by {self.factor}, "
            "and intervals are widened to match"
        )


_STORED = ("look_id", "looked_at", "runs", "label", "candidates", "began_at", "options", "cases")
_RUNS = "SELECT label, started_at, changes FROM runs FINAL WHERE run_id IN {runs:Array(String)} ORDER BY run_id"
_NOW = """
SELECT {look:String} AS look_id,
       (SELECT ifNull(minOrNull(looked_at), now64(3, 'UTC')) FROM looks WHERE look_id = {look:String}) AS looked_at,
       {runs:Array(String)} AS runs, {label:String} AS label, {candidates:Array(String)} AS candidates,
       fromUnixTimestamp64Milli({began:Int64}, 'UTC') AS began_at, {options:String} AS options,
       (SELECT groupUniqArray(cityHash64(case_id)) FROM
           (SELECT case_id FROM run_cases WHERE run_id IN {runs:Array(String)} GROUP BY case_id
            HAVING uniqExact(run_id) = length(arrayDistinct(arrayFilter(run -> run != 'live', {runs:Array(String)}))))) AS cases
"""
_COUNTED = """
WITH e.look_id != o.look_id AND e.looked_at < o.looked_at AND notEmpty(arrayIntersect(o.cases, e.cases)) AS before
SELECT o.look_id, any(o.looked_at) AS at, any(o.runs), any(o.label), any(o.candidates), any(o.began_at), any(o.options), any(o.cases),
       countIf(before), countIf(before AND e.looked_at < o.began_at AND NOT hasAll(e.candidates, o.candidates))
FROM ({of}) AS o LEFT JOIN (SELECT * FROM looks FINAL) AS e ON 1 = 1
GROUP BY o.look_id ORDER BY at, o.look_id
"""


async def read_looks(tables: ClickHouse) -> list[Look]:
    """Return the whole ledger, the first look first."""
    return [_look(row) for row in (await tables.query(_COUNTED.replace("{of}", "SELECT * FROM looks FINAL"))).rows]


async def look_at(
    tables: ClickHouse, runs: Sequence[str], options: Mapping[str, Any], seen: object, *, record: bool = True
) -> Look | None:
    """Return this look as the ledger counts it, and write it there unless ``record`` is False.

    ``seen``: all that the result is made of. The same look at the same data again is one look.
    None: none of the runs changes a prompt or a model, so there is no candidate, and nothing is written.

    Raises:
        TransientError: ClickHouse is unavailable.
    """
    rows = (await tables.query(_RUNS, {"runs": list(runs)})).rows
    looks = [(candidate, label, began) for label, began, changes in rows if (candidate := candidate_in(changes))]
    if not looks:
        return None
    given = canonical_json(options).decode()
    asked = {
        "look": content_hash((tuple(runs), given, seen)),
        "runs": list(runs),
        "label": "; ".join(label for _, label, _ in looks),
        "candidates": sorted({candidate for candidate, _, _ in looks}),
        "began": epoch_ms(max(began for _, _, began in looks)),
        "options": given,
    }
    (row,) = (await tables.query(_COUNTED.replace("{of}", _NOW), asked)).rows
    if record:
        await tables.insert("looks", _STORED, [row[: len(_STORED)]])
    return _look(row)


def _look(row: Sequence[Any]) -> Look:
    values = dict(zip(Look.__struct_fields__, row, strict=True))
    return msgspec.convert(values | {"cases": len(values["cases"])}, Look, strict=False)


def candidate_in(changes: str) -> str:
    """Return a hash of what a run changed, from the JSON in the table ``runs``: equal for equal prompts and models, "" for none."""
    declaration = parse_declaration(changes)
    changed = {
        "prompts": {name: prompt.hash for name, prompt in declaration.prompts.items()},
        "models": declaration.models,
    }
    return content_hash(changed)[:16] if any(changed.values()) else ""
