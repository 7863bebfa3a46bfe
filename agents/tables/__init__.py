"""The editable tables, read once from the JSON files beside this module, one row a line.

``entities.json`` (who may speak officially, where, and by which accounts), ``assets.json`` (what a person keeps of coins
and tokens) over ``assets_ranked.json`` (the first 200 by market value; written by ``lab/assets.py``), ``outlets.json``
(media as texts cite them), ``platforms.json`` (hosts where the account speaks), ``event_terms.json``,
``credibility.json``, ``lexicon.json``, ``search_roles.json`` (providers by role and event). Offline and live are judged
by the same rows; ``entities_demo.json`` and ``outlets_demo.json`` are additions of the bundled sample, which lies on
invented ``.example`` hosts, and never part of a live configuration. No other module reads these files. :mod:`agents.tables.directory` looks things
up in them, :mod:`agents.tables.faults` finds what is wrong with them.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from schemas.config import Asset, Entity, Outlet, Platform, Tables
from schemas.errors import ConfigError

T = TypeVar("T")
_Words = dict[str, tuple[str, ...]]


class RankedAssets(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``assets_ranked.json``: the rows, the package and version that they are from, its licence, and the day (UTC)."""

    source: str
    licence: str
    taken: str
    rows: tuple[Asset, ...]


@lru_cache(maxsize=2)
def load_tables(*, demo: bool) -> Tables:
    """Return the packaged tables; with ``demo``, also the synthetic official hosts, outlets and wires of the bundled corpus.

    Raises:
        ConfigError: an edited file is no JSON, or does not match the shape of its table.
    """
    entities = _read("entities.json", tuple[Entity, ...])
    outlets = _read("outlets.json", tuple[Outlet, ...])
    if demo:
        entities += _read("entities_demo.json", tuple[Entity, ...])
        outlets += _read("outlets_demo.json", tuple[Outlet, ...])
    return Tables(
        entities=entities,
        assets=_merged(ranked_assets().rows, _read("assets.json", tuple[Asset, ...])),
        outlets=outlets,
        platforms=_read("platforms.json", tuple[Platform, ...]),
        event_terms=_read("event_terms.json", _Words),
        credibility=_read("credibility.json", _Words),
        lexicon=_read("lexicon.json", _Words),
        search_roles=_read("search_roles.json", _Words),
    )


def ranked_assets() -> RankedAssets:
    """Return the extracted part of the assets, with where it is from."""
    return _read("assets_ranked.json", RankedAssets)


def raw_tables() -> dict[str, bytes]:
    """Return file name → content of every table, as it is written."""
    files = (f for f in resources.files(__name__).iterdir() if f.name.endswith(".json"))
    return {file.name: file.read_bytes() for file in sorted(files, key=lambda f: f.name)}


def _merged(ranked: tuple[Asset, ...], kept: tuple[Asset, ...]) -> tuple[Asset, ...]:
    # What a person wrote goes before what was extracted. A ticker that is there twice stays so: the check names it.
    extracted = {asset.ticker: asset for asset in ranked}
    rows = []
    for asset in kept:
        known = extracted.pop(asset.ticker, asset)
        rows.append(replace(asset, name=asset.name or known.name, chains=asset.chains or known.chains, rank=known.rank))
    return (*rows, *extracted.values())


def _read(name: str, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(resources.files(__name__).joinpath(name).read_bytes(), type=shape)
    except msgspec.DecodeError as exc:
        raise ConfigError(f"agents/tables/{name}: {exc}; $[0] is the first row: correct it there") from exc
