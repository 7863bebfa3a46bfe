-- What bots were about to do, tried and achieved. A row per record of the topic: a fold in the sink would have to begin with the
-- first record of every delivery that is open, and a position may be open for a month. The views fold.
CREATE TABLE IF NOT EXISTS deliveries
(
    record            LowCardinality(String),
    delivery_id       String CODEC(ZSTD(1)),
    bot               LowCardinality(String),
    adapter           LowCardinality(String),
    mode              LowCardinality(String),
    instrument        LowCardinality(String),
    intent            LowCardinality(String),
    side              LowCardinality(String),
    signal_id         String CODEC(ZSTD(1)),
    revision          UInt32,
    asset             LowCardinality(String),
    entry_id          String CODEC(ZSTD(1)),
    planned_at        Nullable(DateTime64(3, 'UTC')),
    valid_until       Nullable(DateTime64(3, 'UTC')),
    attempt           UInt32,
    outcome           LowCardinality(String),
    reason            String CODEC(ZSTD(3)),
    remote_id         String CODEC(ZSTD(1)),
    price             Nullable(Float64),
    fee               Float64,
    seconds           Nullable(Float64),
    requested_by      String,
    closes            Bool,
    appended_at       DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    journal_topic     LowCardinality(String),
    journal_partition UInt16,
    journal_offset    UInt64,
    ingested_at       DateTime('UTC') DEFAULT now()
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(appended_at)
ORDER BY (bot, delivery_id, journal_offset)
SETTINGS non_replicated_deduplication_window = 10000;

-- As streams/bots/book.py folds: records before the plan count for nothing, an attempt counts by its number, and the last result
-- counts. A bot that goes from paper to live may plan the same delivery again, which is a delivery of its own: `life` tells them apart.
CREATE OR REPLACE VIEW v_deliveries AS
SELECT d.bot AS bot, d.adapter AS adapter, d.mode AS mode, d.instrument AS instrument, d.asset AS asset, d.intent AS intent,
       d.side AS side, d.signal_id AS signal_id, d.revision AS revision, s.verdict AS verdict, d.delivery_id AS delivery_id,
       d.entry_id AS entry_id, d.planned_at AS planned_at, d.attempted_at AS attempted_at,
       if(d.result.1 = '', NULL, d.result.6) AS settled_at, d.valid_until AS valid_until, d.attempts AS attempts,
       d.result.1 AS outcome, d.result.2 AS reason, d.planned_reason AS planned_reason, d.seconds AS seconds,
       d.result.3 AS price, d.result.4 AS fee, d.result.5 AS remote_id
FROM
(
    SELECT bot, delivery_id, life,
           anyIf(adapter, begins) AS adapter, anyIf(mode, begins) AS mode, anyIf(instrument, begins) AS instrument,
           anyIf(asset, begins) AS asset, anyIf(intent, begins) AS intent, anyIf(side, begins) AS side,
           anyIf(signal_id, begins) AS signal_id, anyIf(revision, begins) AS revision, anyIf(entry_id, begins) AS entry_id,
           anyIf(planned_at, begins) AS planned_at, anyIf(valid_until, begins) AS valid_until,
           anyIf(reason, begins) AS planned_reason,
           max(attempt) AS attempts,
           if(attempts = 0, NULL, argMaxIf(appended_at, (attempt, -toInt64(journal_offset)), record = 'attempted')) AS attempted_at,
           argMaxIf((outcome, reason, price, fee, remote_id, appended_at), journal_offset, record = 'settled') AS result,
           argMinIf(seconds, journal_offset, record = 'settled') AS seconds
    FROM
    (
        SELECT *, max(if(begins, journal_offset + 1, 0)) OVER (PARTITION BY bot, delivery_id ORDER BY journal_offset) AS life
        FROM
        (
            SELECT *, record = 'planned' AND journal_offset =
                   min(journal_offset) OVER (PARTITION BY bot, delivery_id, record, adapter, mode) AS begins
            FROM deliveries FINAL
            WHERE record IN ('planned', 'attempted', 'settled')
        )
    )
    WHERE life > 0
    GROUP BY bot, delivery_id, life
) AS d
LEFT JOIN
(
    SELECT signal_id, revision, verdict FROM signals FINAL
    WHERE run_id = 'live' AND signal_id IN (SELECT signal_id FROM deliveries WHERE record = 'planned')
) AS s ON s.signal_id = d.signal_id AND s.revision = d.revision;

CREATE OR REPLACE VIEW v_deliveries_by_day AS
SELECT bot, adapter, mode, intent, toDate(planned_at, 'UTC') AS day,
       count() AS deliveries,
       countIf(outcome = 'delivered') AS delivered, countIf(outcome = 'refused') AS refused,
       countIf(outcome = 'unknown') AS unknown, countIf(outcome = 'expired') AS expired,
       countIf(outcome = 'skipped') AS skipped, countIf(outcome = '') AS unsettled,
       sum(attempts) AS attempts,
       if(count(seconds) = 0, NULL, quantile(0.5)(seconds)) AS p50_s,
       if(count(seconds) = 0, NULL, quantile(0.99)(seconds)) AS p99_s
FROM v_deliveries
GROUP BY bot, adapter, mode, intent, day
ORDER BY bot, adapter, mode, intent, day;
