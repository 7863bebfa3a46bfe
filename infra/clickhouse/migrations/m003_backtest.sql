-- What a replayed case came to, one row per run, case and repeat. A backtest writes it after the case's record on its
-- topic runs.<run_id> was acknowledged; a run that is resumed writes the same rows again, and the latest version wins.

CREATE TABLE IF NOT EXISTS run_cases
(
    run_id                 LowCardinality(String),
    case_id                String CODEC(ZSTD(1)),
    repeat                 UInt16 COMMENT 'from 0; more than one where a run asks a model several times',
    story_id               String CODEC(ZSTD(1)) COMMENT 'cases of one story share it: what is repeated, denied, corrected or nearly the same text',
    status                 LowCardinality(String) COMMENT 'replayed, miss, failed or refused',
    reason                 String CODEC(ZSTD(1)) COMMENT 'of a miss, a failure or a refusal',
    language               LowCardinality(String),
    source                 LowCardinality(String),
    received_at            DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    knowable_at            DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'from when on one could have acted on the news',
    published_at           DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    has_signal             UInt8 COMMENT '0: the case ended without one, or did not end; the columns of the signal are empty then',
    event_type             LowCardinality(String),
    asset                  LowCardinality(String),
    action                 LowCardinality(String),
    direction              LowCardinality(String),
    horizon_s              UInt32,
    preliminary_confidence Float64,
    confidence             Float64,
    executed               UInt32 COMMENT 'calls',
    reused                 UInt32,
    missed                 UInt32,
    cost_usd               Nullable(Decimal(18, 9)) COMMENT 'of the executed calls; null: the price of none of them is known; 0: none, or free',
    unpriced_calls         UInt32 COMMENT 'executed calls of unknown price',
    avoided_cost_usd       Nullable(Decimal(18, 9)) COMMENT 'what the reused replies cost when they were recorded',
    would_have_cost_usd    Nullable(Decimal(18, 9)) COMMENT 'cost_usd + avoided_cost_usd: the case without a recording',
    latency_ms             Nullable(Float64) COMMENT 'of the executed calls only; null: none was executed',
    look_ahead_evidence    UInt32 COMMENT 'pieces of evidence published after the case, refused',
    look_ahead_memory      UInt32 COMMENT 'memories that the case could not have had, refused',
    look_ahead_prices      UInt32 COMMENT 'prices from after the case, refused',
    after_training_cutoff  UInt8 COMMENT '1: the case is older than the training cutoff of the model that judged it, which may know how it ended',
    signal                 String CODEC(ZSTD(3)) COMMENT 'canonical JSON',
    notes                  String CODEC(ZSTD(3)),
    started_at             DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'wall time of the replay',
    version                UInt64 COMMENT 'the largest wins'
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (run_id, case_id, repeat)
TTL toDateTime(started_at) + INTERVAL 180 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000;

-- Replayed cases, and beside them what was judged live, as run 'live', repeat 0. A live case is of the story that a run
-- found it to be of; before any run looked, of its own.
CREATE OR REPLACE VIEW v_run_cases AS
SELECT * FROM run_cases FINAL
UNION ALL
SELECT 'live' AS run_id,
       s.case_id AS case_id,
       toUInt16(0) AS repeat,
       if(k.story = '', s.case_id, k.story) AS story_id,
       'replayed' AS status,
       '' AS reason,
       s.language AS language,
       s.news_source AS source,
       if(o.received_at = 0, s.knowable_at, o.received_at) AS received_at,
       s.knowable_at AS knowable_at,
       s.published_at AS published_at,
       toUInt8(1) AS has_signal,
       s.event_type AS event_type,
       s.asset AS asset,
       s.action AS action,
       s.direction AS direction,
       s.horizon_s AS horizon_s,
       s.preliminary_confidence AS preliminary_confidence,
       s.confidence AS confidence,
       toUInt32(c.executed) AS executed,
       toUInt32(0) AS reused,
       toUInt32(0) AS missed,
       CAST(if(c.executed = 0, toDecimal128(0, 9), c.spent_usd) AS Nullable(Decimal(18, 9))) AS cost_usd,
       toUInt32(c.unpriced) AS unpriced_calls,
       CAST(0 AS Nullable(Decimal(18, 9))) AS avoided_cost_usd,
       CAST(if(c.executed = 0, toDecimal128(0, 9), c.spent_usd) AS Nullable(Decimal(18, 9))) AS would_have_cost_usd,
       if(c.executed = 0, NULL, c.took_ms) AS latency_ms,
       toUInt32(0) AS look_ahead_evidence,
       toUInt32(0) AS look_ahead_memory,
       toUInt32(0) AS look_ahead_prices,
       toUInt8(0) AS after_training_cutoff,
       '' AS signal,
       s.notes AS notes,
       if(o.received_at = 0, s.decided_at, o.received_at) AS started_at,
       toUInt64(0) AS version
FROM (SELECT * FROM v_judgements WHERE run_id = 'live') AS s
LEFT JOIN
(
    SELECT case_id, min(event_time) AS received_at FROM events FINAL
    WHERE run_id = 'live' AND event_type = 'newsproof.event_received' GROUP BY case_id
) AS o ON o.case_id = s.case_id
LEFT JOIN (SELECT case_id, argMax(story_id, version) AS story FROM run_cases GROUP BY case_id) AS k ON k.case_id = s.case_id
LEFT JOIN
(
    SELECT case_id, count() AS executed, sum(cost_usd) AS spent_usd, countIf(cost_usd IS NULL) AS unpriced,
           sum(latency_ms) AS took_ms
    FROM v_calls WHERE run_id = 'live' GROUP BY case_id
) AS c ON c.case_id = s.case_id;
