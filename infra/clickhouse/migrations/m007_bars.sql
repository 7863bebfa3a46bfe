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
ORDER BY (symbol, venue, open_at, version);

-- Written after the bars, so that an import stands as a whole or not at all.
CREATE TABLE IF NOT EXISTS price_imports
(
    version        UInt64 COMMENT 'counted, not read from a clock; the bars of the largest one win',
    source         String COMMENT 'csv:prices.csv, binance:5m; begins with synthetic where prices are invented',
    imported_at    DateTime64(3, 'UTC'),
    bars           UInt64,
    markets        Array(String),
    covers         Array(Tuple(from_at DateTime64(3, 'UTC'), until_at DateTime64(3, 'UTC')))
                   COMMENT 'when it has bars of some market, or asked for them: a market that has none until the end of such a time has ended',
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
ORDER BY version;

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

-- Of event_received alone. The sink writes both by schemas/news.py; rows from before this migration keep the knowable_at that
-- m004 gave them, and count as not live.
ALTER TABLE events ADD COLUMN IF NOT EXISTS live Nullable(Bool)
    COMMENT 'of event_received alone: the news was judged as it came in, so nobody could act before the signal was emitted';
ALTER TABLE events COMMENT COLUMN IF EXISTS knowable_at
    'of event_received alone: from when on one could act on the news; for live news not before its case was opened';

-- Nothing here is delivered twice: rows that were deleted may come back exactly as they were, and must not be taken for a repetition.
ALTER TABLE outcomes MODIFY SETTING non_replicated_deduplication_window = 0;
ALTER TABLE outcome_drops MODIFY SETTING non_replicated_deduplication_window = 0;

ALTER TABLE outcomes ADD COLUMN IF NOT EXISTS halted Bool
    COMMENT 'no bars when the horizon ended: the exit is the first price after the halt, or the last before the market ended';
ALTER TABLE outcomes ADD COLUMN IF NOT EXISTS depeg Nullable(Float64)
    COMMENT 'of stablecoins alone: the farthest that the price was from 1 between entry and exit';
ALTER TABLE outcomes ADD COLUMN IF NOT EXISTS entry_import UInt64
    COMMENT 'price_imports.version of the entry''s bar; 0: from before bars were kept';
ALTER TABLE outcomes ADD COLUMN IF NOT EXISTS exit_import UInt64;
ALTER TABLE outcomes COMMENT COLUMN IF EXISTS horizon_s 'seconds after the entry: those of the imports that stand, and each signal''s own';
ALTER TABLE outcomes COMMENT COLUMN IF EXISTS entry_at 'first price at or after knowable_at, for live news at or after emitted_at';
ALTER TABLE outcomes COMMENT COLUMN IF EXISTS source 'of the bars of entry and exit; both, with a plus between them, where they differ';
ALTER TABLE outcomes COMMENT COLUMN IF EXISTS version 'counts the times that outcomes were computed; the largest wins';
ALTER TABLE outcome_drops COMMENT COLUMN IF EXISTS horizon_s 'seconds after the entry';
ALTER TABLE outcome_drops COMMENT COLUMN IF EXISTS reason 'no_symbol, no_price, gap, halted or horizon_open';
ALTER TABLE outcome_drops COMMENT COLUMN IF EXISTS source 'the newest import of the market that lacks the price; empty for no_symbol';
ALTER TABLE outcome_drops COMMENT COLUMN IF EXISTS version 'as in outcomes';

-- As in m006, and whether the news was live.
CREATE OR REPLACE VIEW v_judgements AS
SELECT * EXCEPT (status, first_knowable_at, first_live, withdrawn_as, withdrawn_at)
         REPLACE (ifNull(first_knowable_at, knowable_at) AS knowable_at),
       ifNull(first_live, false) AS live,
       withdrawn_as,
       if(withdrawn_as = '', NULL, withdrawn_at) AS withdrawn_at
FROM
(
    SELECT * FROM signals FINAL
    WHERE stage = 'final'
    ORDER BY run_id, signal_id, revision DESC
    LIMIT 1 BY run_id, signal_id
) AS s
LEFT JOIN
(
    SELECT run_id, case_id, argMin(knowable_at, journal_offset) AS first_knowable_at, argMin(live, journal_offset) AS first_live
    FROM events WHERE event_type = 'newsproof.event_received' GROUP BY run_id, case_id
) AS o USING (run_id, case_id)
LEFT JOIN v_withdrawals AS w USING (run_id, case_id);

-- Every signal of every run at every horizon (those of the imports that stand, and its own), and whether it counts. Outcomes
-- belong to cases and are shared by all runs. A hit: the price moved the way that the signal said.
-- acted: the signal leaves an order, to buy or to sell. side: 1 bought, -1 sold, 0 neither; a signal that ends as observe leaves
-- no order, whatever the claim would mean if true: said is what it leans to (v_leans).
-- price_standing: counted, or why the price says nothing of what was said: no_outcome (v_outcome_coverage says why), other_asset
-- (the run named another one than was measured), before_knowable and before_emitted (an entry that nobody could have made),
-- withdrawn (before the horizon was over), stablecoin (scored by depeg_hit), halted (nobody could leave when the horizon ended;
-- the return is that of the first chance after), unmoved (a return of exactly zero is neither hit nor miss).
-- standing: the same for orders; neutral where side is 0. What counts was acted on.
CREATE OR REPLACE VIEW v_judged_outcomes AS
SELECT c.run_id AS run_id, c.case_id AS case_id, c.repeat AS repeat, c.story_id AS story_id, c.at_s AS horizon_s,
       c.language AS language, c.source AS news_source, c.event_type AS event_type, c.asset AS asset,
       c.action AS action, c.direction AS direction, c.verdict AS verdict,
       c.preliminary_confidence AS preliminary_confidence, c.confidence AS confidence,
       ifNull(k.first_knowable_at, c.knowable_at) AS knowable_at,
       o.entry_at AS entry_at, o.exit_at AS exit_at, o.return AS market_return, o.source AS price_source,
       o.asset AS outcome_asset, o.case_id != '' AS has_outcome,
       c.action IN ('buy', 'sell') AS acted,
       c.at_s = c.own_horizon_s AS own_horizon,
       ifNull(k.first_live, false) AS live,
       if(s.case_id = '', NULL, s.emitted_at) AS emitted_at,
       multiIf(c.direction = 'long', 1, c.direction = 'short', -1, 0) AS said,
       if(c.action = 'observe', 0, said) AS side,
       multiIf(o.case_id = '' AND d.reason = 'halted' AND d.asset = c.asset, 'halted',
               o.case_id = '', 'no_outcome',
               o.asset != c.asset, 'other_asset',
               o.entry_at < knowable_at, 'before_knowable',
               live AND s.case_id != '' AND o.entry_at < s.emitted_at, 'before_emitted',
               w.case_id != '' AND w.withdrawn_at <= o.exit_at, 'withdrawn',
               o.depeg IS NOT NULL, 'stablecoin',
               o.halted, 'halted',
               o.return = 0, 'unmoved',
               'counted') AS price_standing,
       if(side = 0, 'neutral', price_standing) AS standing,
       if(standing = 'counted', toNullable(toUInt8(sign(o.return) = side)), NULL) AS hit,
       if(standing IN ('counted', 'halted', 'unmoved') AND has_outcome, toNullable(o.return * side), NULL) AS directed_return,
       o.depeg AS depeg,
       if(standing = 'stablecoin' AND event_type = 'depeg' AND side = -1, toNullable(toUInt8(ifNull(o.depeg, 0) > 0.01)), NULL) AS depeg_hit
FROM
(
    SELECT run_id, case_id, repeat, story_id, language, source, event_type, asset, action, direction, verdict,
           preliminary_confidence, confidence, knowable_at, toUInt32(horizon_s) AS own_horizon_s,
           arrayJoin(arrayDistinct(arrayConcat(
               (SELECT if(count() = 0, [300, 3600, 14400, 86400], groupUniqArrayArray(horizons)) FROM price_imports FINAL WHERE NOT removed),
               if(own_horizon_s = 0, emptyArrayUInt32(), [own_horizon_s])))) AS at_s
    FROM v_run_cases WHERE has_signal
) AS c
LEFT JOIN (SELECT case_id, horizon_s, asset, entry_at, exit_at, return, source, halted, depeg FROM outcomes FINAL) AS o
    ON o.case_id = c.case_id AND o.horizon_s = c.at_s
LEFT JOIN (SELECT case_id, horizon_s, asset, reason FROM outcome_drops FINAL) AS d
    ON d.case_id = c.case_id AND d.horizon_s = c.at_s
LEFT JOIN (SELECT case_id, withdrawn_at FROM v_withdrawals WHERE run_id = 'live') AS w ON w.case_id = c.case_id
LEFT JOIN (SELECT case_id, emitted_at FROM v_judgements WHERE run_id = 'live') AS s ON s.case_id = c.case_id
LEFT JOIN
(
    SELECT case_id, argMin(knowable_at, journal_offset) AS first_knowable_at, argMin(live, journal_offset) AS first_live
    FROM events WHERE run_id = 'live' AND event_type = 'newsproof.event_received' GROUP BY case_id
) AS k ON k.case_id = c.case_id;

-- What the figures below rest on: of a run's signals at a horizon, how many count, and why the others do not.
CREATE OR REPLACE VIEW v_outcome_coverage AS
SELECT j.run_id AS run_id, j.horizon_s AS horizon_s,
       multiIf(j.standing != 'no_outcome', j.standing, d.case_id = '', 'not_imported', d.reason) AS standing,
       count() AS signals,
       uniqExact(j.story_id) AS stories,
       countIf(startsWith(j.price_source, 'synthetic')) AS on_synthetic_prices,
       signals / sum(signals) OVER (PARTITION BY run_id, horizon_s) AS share
FROM v_judged_outcomes AS j
LEFT JOIN (SELECT case_id, horizon_s, reason FROM outcome_drops FINAL) AS d
    ON d.case_id = j.case_id AND d.horizon_s = j.horizon_s
GROUP BY run_id, horizon_s, standing
ORDER BY run_id, horizon_s, standing;

-- What became of what a signal leaned to without acting on it: it ended as observe, and had a direction.
CREATE OR REPLACE VIEW v_leans AS
SELECT run_id, horizon_s, verdict, count() AS leans, uniqExact(story_id) AS stories,
       countIf(price_standing = 'counted') AS counted,
       countIf(price_standing = 'counted' AND sign(market_return) = said) AS hits,
       if(counted = 0, NULL, hits / counted) AS hit_rate,
       if(counted = 0, NULL, avgIf(market_return * said, price_standing = 'counted')) AS mean_return,
       avg(confidence) AS mean_confidence
FROM v_judged_outcomes
WHERE NOT acted AND said != 0
GROUP BY run_id, horizon_s, verdict
ORDER BY run_id, horizon_s, verdict;

-- Claims that a stablecoin loses its peg, acted on by selling it. A hit: its price was farther than 0.01 from 1 before the
-- horizon was over. Stablecoins are in no other hit rate.
CREATE OR REPLACE VIEW v_depegs AS
SELECT run_id, horizon_s, count() AS claims, uniqExact(story_id) AS stories, sum(assumeNotNull(depeg_hit)) AS hits, hits / claims AS hit_rate,
       avg(confidence) AS mean_confidence, max(assumeNotNull(depeg)) AS largest_depeg
FROM v_judged_outcomes
WHERE depeg_hit IS NOT NULL
GROUP BY run_id, horizon_s
ORDER BY run_id, horizon_s;

-- 2. As in m004, and how many of the signals with a direction could not be held to their end or did not move.
CREATE OR REPLACE VIEW v_cost_per_correct_signal AS
SELECT j.run_id AS run_id, j.horizon_s AS horizon_s, j.signals AS signals, j.with_direction AS with_direction,
       j.counted AS counted, if(j.with_direction = 0, 0, j.counted / j.with_direction) AS outcome_share,
       j.correct AS correct, j.withdrawn AS withdrawn, j.halted AS halted, j.unmoved AS unmoved,
       c.calls AS calls, c.total_cost_usd AS total_cost_usd, c.unpriced_calls AS unpriced_calls,
       if(c.calls = 0, 0, c.unpriced_calls / c.calls) AS unpriced_share,
       toFloat64(c.total_cost_usd) / nullIf(j.signals, 0) AS cost_per_signal_usd,
       toFloat64(c.total_cost_usd) / nullIf(j.correct, 0) AS cost_per_correct_signal_usd
FROM
(
    SELECT run_id, horizon_s, count() AS signals, countIf(side != 0) AS with_direction,
           countIf(standing = 'counted') AS counted, countIf(hit = 1) AS correct, countIf(standing = 'withdrawn') AS withdrawn,
           countIf(standing = 'halted') AS halted, countIf(standing = 'unmoved') AS unmoved
    FROM v_judged_outcomes GROUP BY run_id, horizon_s
) AS j
LEFT JOIN
(
    SELECT run_id, count() AS calls, sum(cost_usd) AS total_cost_usd, countIf(cost_usd IS NULL) AS unpriced_calls
    FROM v_calls WHERE execution = 'executed' GROUP BY run_id
) AS c ON c.run_id = j.run_id
ORDER BY run_id, horizon_s;

-- 5. As in m004, and how many have an outcome that is no hit and no miss.
CREATE OR REPLACE VIEW v_search_help AS
SELECT j.run_id AS run_id, s.case_id != '' AS searched, j.horizon_s AS horizon_s,
       countIf(standing = 'counted') AS cases,
       uniqExactIf(story_id, standing = 'counted') AS stories,
       avg(pow(preliminary_confidence - hit, 2)) AS brier_preliminary,
       avg(pow(confidence - hit, 2)) AS brier_final,
       brier_preliminary - brier_final AS brier_gain,
       countIf(standing = 'neutral') AS neutral,
       countIf(standing = 'withdrawn') AS withdrawn,
       countIf(standing IN ('halted', 'unmoved', 'stablecoin')) AS neither,
       countIf(standing NOT IN ('counted', 'neutral', 'withdrawn', 'halted', 'unmoved', 'stablecoin')) AS without_outcome
FROM v_judged_outcomes AS j
LEFT JOIN (SELECT run_id, case_id FROM tool_calls FINAL WHERE tool_name = 'search' GROUP BY run_id, case_id) AS s
    ON s.run_id = j.run_id AND s.case_id = j.case_id
GROUP BY run_id, searched, horizon_s
ORDER BY run_id, searched, horizon_s;

-- 10. What would make the figures untrue. Every check that has data says so with a row, also with 0 violations.
CREATE OR REPLACE VIEW v_trust_checks AS
SELECT run_id, 'evidence_newer_than_case' AS check,
       countIf(arrayExists(e -> ifNull(tupleElement(e, 'published_at') > knowable_at, 0), evidence)) AS violations
FROM v_judgements GROUP BY run_id
UNION ALL
SELECT run_id, 'unpriced_calls' AS check, countIf(cost_usd IS NULL AND execution = 'executed') AS violations FROM v_calls GROUP BY run_id
UNION ALL
SELECT run_id, tupleElement(found, 1) AS check, tupleElement(found, 2) AS violations
FROM
(
    SELECT run_id,
           arrayJoin([('entry_before_knowable', countIf(entry_at < knowable_at)),
                      ('entry_before_emitted', countIf(live AND ifNull(entry_at < emitted_at, 0))),
                      ('outcome_of_another_asset', countIf(outcome_asset != asset)),
                      ('outcome_on_synthetic_prices', countIf(startsWith(price_source, 'synthetic')))]) AS found
    FROM v_judged_outcomes WHERE has_outcome GROUP BY run_id
)
UNION ALL
SELECT run_id, 'judged_by_a_model_trained_later' AS check, sum(after_training_cutoff) AS violations
FROM run_cases FINAL GROUP BY run_id
UNION ALL
SELECT run_id, 'two_successors_of_one_event' AS check, countIf(successors > 1) AS violations
FROM
(
    SELECT run_id, uniqExact(event_id) AS successors FROM events FINAL
    WHERE causation_id != '' AND event_type != 'newsproof.effect_completed' GROUP BY run_id, case_id, causation_id
)
GROUP BY run_id
UNION ALL
SELECT run_id, 'two_revisions_of_one_cause' AS check, countIf(revisions > 1) AS violations
FROM (SELECT run_id, count() AS revisions FROM signals FINAL GROUP BY run_id, signal_id, cause_id)
GROUP BY run_id
UNION ALL
-- A backtest with repeats asks the same question again on purpose.
SELECT run_id, 'calls_paid_twice' AS check, toUInt64(sum(passed_by + greatest(toInt64(paid) - 1, 0))) AS violations
FROM
(
    SELECT run_id, countIf(accepted = 0) AS passed_by, countIf(accepted = 1) AS paid FROM v_calls
    WHERE run_id = 'live' AND execution = 'executed' AND (cost_usd IS NULL OR cost_usd > 0) GROUP BY run_id, case_id, request_hash
)
GROUP BY run_id;
