"""The extraction of the ranked assets, from a package as npm lays it out; nothing is fetched."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from agents.tables import load_tables, ranked_assets
from lab import assets
from schemas.errors import ConfigError

TOKENS = """const tokens = [
  {
    id: 'bitcoin',
    filePath: 'token:BTC',
    symbol: 'btc',
    name: 'Bitcoin',
    marketCapRank: null,
    addresses: {},
    variants: ['branded'],
  },
  {
    id: 'gram',
    filePath: 'token:GRAM',
    symbol: 'gram',
    name: 'Gram',
    marketCapRank: 2,
    addresses: {
      ton: '0:b8',
    },
    variants: ['branded'],
  },
  {
    id: 'lower',
    filePath: 'token:TWO',
    symbol: 'one',
    name: 'Lower Rank of the Same Ticker',
    marketCapRank: 9,
    addresses: {},
    variants: ['branded'],
  },
  {
    id: 'one',
    filePath: 'token:ONE',
    symbol: 'one',
    name: "Planted's Coin",
    marketCapRank: 3,
    addresses: {
      'near-protocol':
        'a.factory.bridge.near',
      xdai: '0x1',
    },
    variants: ['branded'],
  },
  {
    id: 'unranked',
    filePath: 'token:U',
    symbol: 'u',
    name: 'Unranked',
    marketCapRank: 0,
    addresses: {},
    variants: ['branded'],
  },
]
export { tokens }
"""


def package(where: Path, licence: str = "MIT", tokens: str = TOKENS) -> Path:
    about = json.dumps({"name": "@web3icons/common", "version": "1.2.3", "license": licence})
    path = where / "package.tgz"
    with tarfile.open(path, "w:gz") as files:
        for name, text in (("package.json", about), ("dist/metadata/tokens.js", tokens)):
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(text.encode())
            files.addfile(entry, io.BytesIO(text.encode()))
    return path


def test_rows_are_ranked_once_a_ticker_and_written_one_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assets, "LENGTH", 2)
    found = assets.extract(package(tmp_path))
    assert found.source == "@web3icons/common 1.2.3"
    assert [(a.ticker, a.name, a.rank, a.chains) for a in found.rows] == [
        ("BTC", "Bitcoin", 1, ()),
        ("ONE", "Planted's Coin", 3, ("near-protocol", "gnosis")),
    ]
    assert len(assets.written(found).splitlines()) == 2 + 2


def test_another_licence_or_another_layout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="docs/licences"):
        assets.extract(package(tmp_path, licence="CC-BY-4.0"))
    with pytest.raises(ConfigError, match="gives 0 ranked assets"):
        assets.extract(package(tmp_path, tokens="export const tokens = {}"))


def test_the_shipped_table_is_what_the_script_writes() -> None:
    assert assets.TABLE.read_text("utf-8") == assets.written(ranked_assets())
    assert load_tables(demo=False).assets


def test_the_page_of_licences_names_the_package_that_was_extracted() -> None:
    page = (assets.TABLE.parents[2] / "docs" / "licences.md").read_text("utf-8")
    assert f"`{ranked_assets().source}`" in page
