-- Memory in the form that recall reads fast (ADR 17): whole numbers of one byte instead of floats, a fourth of the bytes;
-- small granules, so that what an entry says is fetched for those found alone; years instead of months, so that there are
-- few parts. Replaces the table `memory`, which held floats. Rows are projections of the journal: fill it from there with
-- `newsproof memory rebuild`.

CREATE TABLE IF NOT EXISTS memories
(
    run_id            LowCardinality(String),
    case_id           String CODEC(ZSTD(1)),
    event_id          String CODEC(ZSTD(1)),
    signal_id         String CODEC(ZSTD(1)),
    status            LowCardinality(String),
    event_type        LowCardinality(String),
    asset             LowCardinality(String),
    action            LowCardinality(String),
    summary           String CODEC(ZSTD(3)),
    confidence        Float64,
    language          LowCardinality(String),
    decided_at        DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    embedding_model   LowCardinality(String) COMMENT 'vectors of different models are never compared; a case may have one of each',
    -- Vectors hardly compress, and every recall reads them all.
    embedding         Array(Int8) CODEC(NONE) COMMENT 'its direction counts, not its length; empty for a text without letters',
    embedding_norm    Float32 MATERIALIZED L2Norm(embedding) CODEC(NONE) COMMENT 'the length of that vector',
    journal_topic     LowCardinality(String),
    journal_partition UInt16,
    journal_offset    UInt64,
    ingested_at       DateTime('UTC') DEFAULT now(),
    first_wins        UInt64
)
ENGINE = ReplacingMergeTree(first_wins)
PARTITION BY toYear(decided_at)
ORDER BY (run_id, embedding_model, case_id)
TTL ingested_at + INTERVAL 180 DAY DELETE WHERE run_id != 'live'
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 512, min_compress_block_size = 16384, max_compress_block_size = 65536;

DROP TABLE IF EXISTS memory;
