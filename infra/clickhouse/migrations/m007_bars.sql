-- Prices are kept, each import as a version (ADR 20): the bar of a market at a time is that of the newest import that stands.
-- Outcomes are computed from the bars of all imports that stand, so that removing one brings back exactly what was before it.

-- Rows of an import that was never finished have no row in `price_imports`: they stand for nothing.
CREATE TABLE IF NOT EXISTS bars
(
    version UInt64 COMMENT 'the import that brought it, as in price_imports',
    symbol  LowCardinality(String) COMMENT 'BASE/QUOTE, such as BTC/USDT',
    venue   LowCardinality(String) COMMENT 'empty: the import did not say',
    open_at DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'when the bar opened',
    open    Float64 CODEC(ZSTD(1)) COMMENT 'the price at open_at: the one price of a bar whose time is known',
    high    Float64 CODEC(ZSTD(1)),
    low     Float64 CODEC(ZSTD(1)),
    close   Float64 CODEC(ZSTD(1)),
    volume  Nullable(Float64) CODEC(ZSTD(1)) COMMENT 'in the base currency; null: the import did not say',
    asset   LowCardinality(String) ALIAS splitByChar('/', symbol)[1]
)
ENGINE = ReplacingMergeTree
PARTITION BY toYear(open_at)
ORDER BY (symbol, venue, open_at, version)
SETTINGS non_replicated_deduplication_window = 10000;

-- Written after the bars, so that an import stands as a whole or not at all.
CREATE TABLE IF NOT EXISTS price_imports
(
    version        UInt64 COMMENT 'counted, not read from a clock; the bars of the largest one win',
    source         String COMMENT 'csv:prices.csv, binance:5m; begins with synthetic where prices are invented',
    imported_at    DateTime64(3, 'UTC'),
    bars           UInt64,
    markets        Array(String),
    first_at       DateTime64(3, 'UTC') COMMENT 'the time that it covers: to last_at, in each of its markets',
    last_at        DateTime64(3, 'UTC') COMMENT 'a market without bars near this end has ended',
    entry_within_s Float64 COMMENT 'how late an entry at one of its bars may be',
    cases_from     DateTime64(3, 'UTC') COMMENT 'the cases that it was imported for: knowable from then on',
    cases_until    DateTime64(3, 'UTC'),
    horizons       Array(UInt32) COMMENT 'seconds; beside each signal''s own',
    maps           Array(Tuple(asset String, symbol String, valid_from DateTime64(3, 'UTC'), valid_until DateTime64(3, 'UTC')))
                   COMMENT 'which market an asset traded on, from when until when',
    removed        UInt8 COMMENT '1: outcomes remove; its bars are deleted, its number is not used again',
    removed_at     Nullable(DateTime64(3, 'UTC'))
)
ENGINE = ReplacingMergeTree(removed)
ORDER BY version
SETTINGS non_replicated_deduplication_window = 10000;

-- The bars that count.
CREATE OR REPLACE VIEW v_bars AS
SELECT b.symbol AS symbol, b.venue AS venue, splitByChar('/', b.symbol)[1] AS asset, b.open_at AS open_at, b.open AS open,
       b.high AS high, b.low AS low, b.close AS close, b.volume AS volume, b.version AS version, i.source AS source
FROM
(
    SELECT * FROM bars WHERE version IN (SELECT version FROM price_imports FINAL WHERE NOT removed)
    ORDER BY symbol, venue, open_at, version DESC
    LIMIT 1 BY symbol, venue, open_at
) AS b
INNER JOIN (SELECT version, source FROM price_imports FINAL WHERE NOT removed) AS i ON i.version = b.version;
