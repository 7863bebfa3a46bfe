-- The tables. Rows are projections of journals, so everything here can be dropped and filled again.
--
-- first_wins = 2^64 - 1 - journal offset. ReplacingMergeTree keeps the row with the largest version of one sort key,
-- so the row of the FIRST record stays, in whatever order and however often records are delivered.
-- Sort keys hold only values that survive redelivery. Bodies (payload, reply) are emptied 90 days after they were
-- *ingested*: news may be years older than its case. Backtest rows go 180 days after ingestion, live rows never.

CREATE TABLE IF NOT EXISTS events
(
    run_id            LowCardinality(String),
    case_id           String CODEC(ZSTD(1)),
    event_id          String CODEC(ZSTD(1)),
    causation_id      String CODEC(ZSTD(1)),
    event_type        LowCardinality(String) COMMENT 'wire name, as in the header ce_type',
    schema_version    UInt16,
    event_time        DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    appended_at       DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'LogAppendTime of the journal record',
    step              LowCardinality(String) COMMENT 'the step that produced the event; empty for intake and commands',
    outcome           LowCardinality(String) COMMENT 'what the event decided in one word: route, verdict, path, reason',
    step_latency_ms   Nullable(Float64) COMMENT 'event time minus the time of its cause',
    calls             UInt16,
    provider_mode     LowCardinality(String),
    journal_topic     LowCardinality(String),
    journal_partition UInt16,
    journal_offset    UInt64,
    payload           String CODEC(ZSTD(3)) TTL ingested_at + INTERVAL 90 DAY,
    ingested_at       DateTime('UTC') DEFAULT now(),
    first_wins        UInt64
)
ENGINE = ReplacingMergeTree(first_wins)
PARTITION BY toYYYYMM(event_time)
ORDER BY (run_id, case_id, event_id)
TTL ingested_at + INTERVAL 180 DAY DELETE WHERE run_id != 'live'
SETTINGS non_replicated_deduplication_window = 10000;

-- Keyed by event id AND offset: a call that was paid twice is two rows, and visible.
CREATE TABLE IF NOT EXISTS llm_calls
(
    run_id                        LowCardinality(String),
    case_id                       String CODEC(ZSTD(1)),
    event_id                      String CODEC(ZSTD(1)),
    journal_topic                 LowCardinality(String),
    journal_partition             UInt16,
    journal_offset                UInt64,
    call_index                    UInt16,
    accepted                      UInt8 COMMENT '0: in a record that the rule of acceptance passed by; paid all the same',
    event_type                    LowCardinality(String),
    step                          LowCardinality(String),
    provider_name                 LowCardinality(String) COMMENT 'gen_ai.provider.name',
    provider_mode                 LowCardinality(String) COMMENT 'live, offline or simulated',
    request_model                 LowCardinality(String) COMMENT 'gen_ai.request.model',
    prompt_name                   LowCardinality(String),
    prompt_version                LowCardinality(String),
    prompt_hash                   LowCardinality(String),
    usage_input_tokens            UInt32 COMMENT 'gen_ai.usage.input_tokens, cached ones included',
    usage_cache_read_input_tokens UInt32,
    usage_output_tokens           UInt32,
    usage_reasoning_output_tokens UInt32,
    cost_usd                      Nullable(Decimal(18, 9)) COMMENT 'null: price unknown; 0: free',
    avoided_cost_usd              Nullable(Decimal(18, 9)) COMMENT 'what a reused reply would have cost',
    cost_source                   LowCardinality(String),
    latency_ms                    Nullable(Float64),
    attempt                       UInt16,
    repair                        UInt8,
    cached                        UInt8,
    error_type                    LowCardinality(String) COMMENT 'error.type; empty when it worked',
    finish_reason                 LowCardinality(String) COMMENT 'gen_ai.response.finish_reasons',
    execution                     LowCardinality(String) COMMENT 'executed, reused or miss',
    request_hash                  String CODEC(ZSTD(1)),
    as_of                         DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'time of the event',
    started_at                    DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'wall time of the request',
    reply                         String CODEC(ZSTD(3)) TTL ingested_at + INTERVAL 90 DAY,
    ingested_at                   DateTime('UTC') DEFAULT now(),
    first_wins                    UInt64
)
ENGINE = ReplacingMergeTree(first_wins)
PARTITION BY toYYYYMM(as_of)
ORDER BY (run_id, case_id, event_id, journal_offset, call_index)
TTL ingested_at + INTERVAL 180 DAY DELETE WHERE run_id != 'live'
SETTINGS non_replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS tool_calls
(
    run_id            LowCardinality(String),
    case_id           String CODEC(ZSTD(1)),
    event_id          String CODEC(ZSTD(1)),
    journal_topic     LowCardinality(String),
    journal_partition UInt16,
    journal_offset    UInt64,
    call_index        UInt16,
    accepted          UInt8 COMMENT '0: in a record that the rule of acceptance passed by; paid all the same',
    event_type        LowCardinality(String),
    step              LowCardinality(String),
    tool_name         LowCardinality(String) COMMENT 'gen_ai.tool.name: search, scrape, recall, market, duplicate_check',
    provider_name     LowCardinality(String),
    provider_mode     LowCardinality(String),
    query             String CODEC(ZSTD(3)) COMMENT 'the query or the address, as the provider echoed it',
    result_count      UInt32,
    cost_usd          Nullable(Decimal(18, 9)) COMMENT 'null: price unknown; 0: free',
    avoided_cost_usd  Nullable(Decimal(18, 9)),
    cost_source       LowCardinality(String),
    latency_ms        Nullable(Float64),
    attempt           UInt16,
    cached            UInt8,
    error_type        LowCardinality(String) COMMENT 'error.type; empty when it worked',
    execution         LowCardinality(String) COMMENT 'executed, reused or miss',
    request_hash      String CODEC(ZSTD(1)),
    as_of             DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'time of the event',
    started_at        DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'wall time of the request',
    reply             String CODEC(ZSTD(3)) TTL ingested_at + INTERVAL 90 DAY,
    ingested_at       DateTime('UTC') DEFAULT now(),
    first_wins        UInt64
)
ENGINE = ReplacingMergeTree(first_wins)
PARTITION BY toYYYYMM(as_of)
ORDER BY (run_id, case_id, event_id, journal_offset, call_index)
TTL ingested_at + INTERVAL 180 DAY DELETE WHERE run_id != 'live'
SETTINGS non_replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS signals
(
    run_id                 LowCardinality(String),
    signal_id              String CODEC(ZSTD(1)),
    revision               UInt32,
    supersedes             Nullable(UInt32),
    status                 LowCardinality(String),
    case_id                String CODEC(ZSTD(1)),
    cause_id               String CODEC(ZSTD(1)) COMMENT 'the journal event that this revision was published for',
    event_type             LowCardinality(String),
    asset                  LowCardinality(String),
    asset_name             String CODEC(ZSTD(1)),
    symbol                 LowCardinality(String),
    venue                  LowCardinality(String),
    action                 LowCardinality(String),
    direction              LowCardinality(String),
    strength               LowCardinality(String),
    timeframe              LowCardinality(String),
    horizon_s              UInt32,
    preliminary_confidence Float64,
    confidence             Float64,
    confidence_calibrated  Nullable(Float64),
    confidence_delta       Float64 COMMENT 'confidence - preliminary_confidence',
    adjustments            Array(Tuple(rule String, amount Float64, reason String)),
    risk_flags             Array(String),
    independent_sources    UInt16,
    evidence               Array(Tuple(url String, hash String, stance String, official UInt8, independent UInt8, published_at Nullable(DateTime64(3, 'UTC')))),
    links                  Array(String),
    summary                String CODEC(ZSTD(3)),
    notes                  String CODEC(ZSTD(3)),
    reference_price        Nullable(Float64),
    prompt_versions        Array(Tuple(name String, version String, hash String)),
    model                  LowCardinality(String),
    provider_mode          LowCardinality(String),
    news_source            LowCardinality(String),
    language               LowCardinality(String),
    published_at           DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'when the news was published',
    knowable_at            DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'from when on one could have acted on the news',
    decided_at             DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    valid_until            DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    emitted_at             DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'append time on the signals topic',
    journal_topic          LowCardinality(String),
    journal_partition      UInt16,
    journal_offset         UInt64,
    ingested_at            DateTime('UTC') DEFAULT now(),
    first_wins             UInt64
)
ENGINE = ReplacingMergeTree(first_wins)
PARTITION BY toYYYYMM(decided_at)
ORDER BY (run_id, signal_id, revision)
TTL ingested_at + INTERVAL 180 DAY DELETE WHERE run_id != 'live'
SETTINGS non_replicated_deduplication_window = 10000;

-- Not a projection of a journal: prices are imported, and a later import corrects an earlier one. Shared by all runs.
CREATE TABLE IF NOT EXISTS outcomes
(
    case_id     String CODEC(ZSTD(1)),
    horizon_s   UInt32 COMMENT '300, 3600, 14400 or 86400',
    asset       LowCardinality(String),
    symbol      LowCardinality(String),
    venue       LowCardinality(String),
    entry_at    DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'first price at or after knowable_at',
    entry_price Float64,
    exit_at     DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    exit_price  Float64,
    return      Float64 COMMENT 'exit_price / entry_price - 1, without fees',
    source      LowCardinality(String),
    ingested_at DateTime('UTC') DEFAULT now(),
    version     UInt64 COMMENT 'of the import; the largest wins'
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(entry_at)
ORDER BY (case_id, horizon_s)
SETTINGS non_replicated_deduplication_window = 10000;

-- Not a projection either: a run's row is written at its start and again at its end.
CREATE TABLE IF NOT EXISTS runs
(
    run_id           String,
    label            String,
    status           LowCardinality(String) COMMENT 'running, finished, failed',
    changes          String CODEC(ZSTD(3)) COMMENT 'JSON: what differs from the recorded configuration',
    code_version     LowCardinality(String),
    cases_from       DateTime64(3, 'UTC'),
    cases_to         DateTime64(3, 'UTC'),
    cases            UInt32,
    executed         UInt32,
    reused           UInt32,
    missed           UInt32,
    cost_usd         Nullable(Decimal(18, 9)),
    avoided_cost_usd Nullable(Decimal(18, 9)),
    started_at       DateTime64(3, 'UTC'),
    finished_at      Nullable(DateTime64(3, 'UTC')),
    version          UInt64 COMMENT 'the largest wins'
)
ENGINE = ReplacingMergeTree(version)
ORDER BY run_id
SETTINGS non_replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS memory
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
    embedding_model   LowCardinality(String) COMMENT 'vectors of different models are never compared',
    -- Vectors hardly compress, and every recall reads them all: uncompressed, a search is four times faster.
    embedding         Array(Float32) CODEC(NONE) COMMENT 'normalised; empty for a text without letters',
    journal_topic     LowCardinality(String),
    journal_partition UInt16,
    journal_offset    UInt64,
    ingested_at       DateTime('UTC') DEFAULT now(),
    first_wins        UInt64
)
ENGINE = ReplacingMergeTree(first_wins)
PARTITION BY toYYYYMM(decided_at)
ORDER BY (run_id, case_id)
TTL ingested_at + INTERVAL 180 DAY DELETE WHERE run_id != 'live'
SETTINGS non_replicated_deduplication_window = 10000;
