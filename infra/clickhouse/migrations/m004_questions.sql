-- The ten questions of docs/sql.md. Plain views over FINAL, as in m002; what m002 answered short of the question is
-- replaced here. Money: unknown is null, and counted beside every sum.

-- From when on one could have acted on a news item: the listener's received_at where it gave one, else published_at. Taken
-- when the row comes in, for bodies are emptied after 90 days; the revisions on the topic `signals` do not carry it.
ALTER TABLE events ADD COLUMN IF NOT EXISTS knowable_at Nullable(DateTime64(3, 'UTC'))
    DEFAULT if(event_type = 'newsproof.event_received',
               parseDateTime64BestEffortOrNull(
                   if(JSONHas(payload, 'news', 'received_at') AND JSONExtractString(payload, 'news', 'received_at') != '',
                      JSONExtractString(payload, 'news', 'received_at'),
                      JSONExtractString(payload, 'news', 'published_at')), 3, 'UTC'),
               NULL)
    COMMENT 'of event_received alone';

-- Why a signal has no outcome at a horizon. Beside outcomes and not in it: a later import that knows the price wins.
CREATE TABLE IF NOT EXISTS outcome_drops
(
    case_id     String CODEC(ZSTD(1)),
    horizon_s   UInt32 COMMENT '300, 3600, 14400 or 86400',
    asset       LowCardinality(String),
    reason      LowCardinality(String) COMMENT 'no_symbol, no_price, gap or horizon_open',
    source      LowCardinality(String),
    ingested_at DateTime('UTC') DEFAULT now(),
    version     UInt64 COMMENT 'of the import; the largest wins'
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (case_id, horizon_s)
SETTINGS non_replicated_deduplication_window = 10000;

-- Signals that another case denied or corrected. Known from when on that other news was knowable, not from when it was
-- processed: in a replay of old news the two lie years apart.
CREATE OR REPLACE VIEW v_withdrawals AS
SELECT r.run_id AS run_id, r.case_id AS case_id,
       argMin(r.status, r.revision) AS withdrawn_as,
       min(if(d.knowable_at IS NULL, r.emitted_at, assumeNotNull(d.knowable_at))) AS withdrawn_at
FROM (SELECT run_id, case_id, revision, status, cause_id, emitted_at FROM signals FINAL WHERE status IN ('retracted', 'superseded')) AS r
LEFT JOIN
(
    SELECT event_id, any(case_id) AS case_id FROM events
    WHERE event_type = 'newsproof.retraction_found' GROUP BY event_id
) AS f ON f.event_id = r.cause_id
LEFT JOIN
(
    SELECT run_id, case_id, argMin(knowable_at, journal_offset) AS knowable_at FROM events
    WHERE event_type = 'newsproof.event_received' GROUP BY run_id, case_id
) AS d ON d.run_id = r.run_id AND d.case_id = f.case_id
GROUP BY run_id, case_id;

-- The last judgement of each case, at its true knowable_at. A withdrawal that came later does not hide it: who judges by
-- what was known leaves a signal out only for the time from withdrawn_at on. Null: never withdrawn.
CREATE OR REPLACE VIEW v_judgements AS
SELECT * EXCEPT (first_knowable_at, withdrawn_as, withdrawn_at) REPLACE (ifNull(first_knowable_at, knowable_at) AS knowable_at),
       withdrawn_as,
       if(withdrawn_as = '', NULL, withdrawn_at) AS withdrawn_at
FROM
(
    SELECT * FROM signals FINAL
    WHERE status IN ('verified', 'degraded', 'preliminary_only')
    ORDER BY run_id, signal_id, revision DESC
    LIMIT 1 BY run_id, signal_id
) AS s
LEFT JOIN
(
    SELECT run_id, case_id, argMin(knowable_at, journal_offset) AS first_knowable_at FROM events
    WHERE event_type = 'newsproof.event_received' GROUP BY run_id, case_id
) AS o USING (run_id, case_id)
LEFT JOIN v_withdrawals AS w USING (run_id, case_id);

-- 1. Spend by day (UTC, of the request), step, model and prompt version. Only executed calls cost anything.
CREATE OR REPLACE VIEW v_spend AS
SELECT run_id, toDate(started_at) AS day, step, kind, provider_name, request_model, prompt_name, prompt_version,
       count() AS calls,
       countIf(execution = 'executed') AS executed_calls,
       sumIf(cost_usd, execution = 'executed') AS total_cost_usd,
       countIf(execution = 'executed' AND cost_usd IS NULL) AS unpriced_calls,
       if(executed_calls = 0, 0, unpriced_calls / executed_calls) AS unpriced_share,
       sum(avoided_cost_usd) AS total_avoided_cost_usd,
       sum(usage_input_tokens) AS input_tokens,
       sum(usage_cache_read_input_tokens) AS cached_input_tokens,
       sum(usage_output_tokens) AS output_tokens,
       sum(usage_reasoning_output_tokens) AS reasoning_tokens
FROM v_calls
GROUP BY run_id, day, step, kind, provider_name, request_model, prompt_name, prompt_version
ORDER BY run_id, day, step, kind, provider_name, request_model, prompt_name, prompt_version;

-- 3. As in m002, but only of what was executed: a reply that was reused took no time.
CREATE OR REPLACE VIEW v_latency_to_signal AS
SELECT s.run_id AS run_id, s.status AS status, count() AS signals,
       quantile(0.5)(dateDiff('millisecond', s.published_at, s.emitted_at)) AS published_p50_ms,
       quantile(0.95)(dateDiff('millisecond', s.published_at, s.emitted_at)) AS published_p95_ms,
       quantile(0.99)(dateDiff('millisecond', s.published_at, s.emitted_at)) AS published_p99_ms,
       quantileIf(0.5)(dateDiff('millisecond', o.opened_at, s.emitted_at), o.case_id != '') AS opened_p50_ms,
       quantileIf(0.95)(dateDiff('millisecond', o.opened_at, s.emitted_at), o.case_id != '') AS opened_p95_ms,
       quantileIf(0.99)(dateDiff('millisecond', o.opened_at, s.emitted_at), o.case_id != '') AS opened_p99_ms
FROM v_judgements AS s
LEFT JOIN
(
    SELECT run_id, case_id, min(event_time) AS opened_at FROM events
    WHERE event_type = 'newsproof.event_received' GROUP BY run_id, case_id
) AS o ON o.run_id = s.run_id AND o.case_id = s.case_id
GROUP BY run_id, status
ORDER BY run_id, status;

-- 4. The whole distribution of the change, in steps of 0.1. verdict: the critique's, empty where the case had none.
CREATE OR REPLACE VIEW v_confidence_delta_bins AS
SELECT s.run_id AS run_id, s.news_source AS news_source, s.event_type AS event_type, v.verdict AS verdict,
       floor(round(s.confidence_delta * 10, 6)) / 10 AS delta_from,
       count() AS signals
FROM v_judgements AS s
LEFT JOIN
(
    SELECT run_id, case_id, argMax(outcome, journal_offset) AS verdict FROM events FINAL
    WHERE event_type = 'newsproof.evidence_critiqued' GROUP BY run_id, case_id
) AS v ON v.run_id = s.run_id AND v.case_id = s.case_id
GROUP BY run_id, news_source, event_type, verdict, delta_from
ORDER BY run_id, news_source, event_type, verdict, delta_from;

-- Every signal of every run at every horizon, and whether it counts. A hit: the price moved the way that the signal said.
-- standing: counted, or why not. Outcomes belong to cases and are shared by all runs, so a run that named another asset has
-- no outcome there; an entry before the news was knowable is never used; a signal that was withdrawn before the horizon was
-- over was not held that long.
CREATE OR REPLACE VIEW v_judged_outcomes AS
SELECT c.run_id AS run_id, c.case_id AS case_id, c.repeat AS repeat, c.story_id AS story_id, c.at_s AS horizon_s,
       c.language AS language, c.source AS news_source, c.event_type AS event_type, c.asset AS asset,
       c.action AS action, c.direction AS direction,
       c.preliminary_confidence AS preliminary_confidence, c.confidence AS confidence, c.knowable_at AS knowable_at,
       o.entry_at AS entry_at, o.exit_at AS exit_at, o.return AS market_return, o.source AS price_source,
       o.asset AS outcome_asset, o.case_id != '' AS has_outcome,
       multiIf(c.direction = 'long', 1, c.direction = 'short', -1, 0) AS side,
       multiIf(side = 0, 'neutral',
               o.case_id = '', 'no_outcome',
               o.asset != c.asset, 'other_asset',
               o.entry_at < c.knowable_at, 'before_knowable',
               w.case_id != '' AND w.withdrawn_at <= o.exit_at, 'withdrawn',
               'counted') AS standing,
       if(standing = 'counted', toNullable(toUInt8(sign(o.return) = side)), NULL) AS hit,
       if(standing = 'counted', toNullable(o.return * side), NULL) AS directed_return
FROM
(
    SELECT run_id, case_id, repeat, story_id, language, source, event_type, asset, action, direction,
           preliminary_confidence, confidence, knowable_at, arrayJoin([300, 3600, 14400, 86400]) AS at_s
    FROM v_run_cases WHERE has_signal
) AS c
LEFT JOIN (SELECT case_id, horizon_s, asset, entry_at, exit_at, return, source FROM outcomes FINAL) AS o
    ON o.case_id = c.case_id AND o.horizon_s = c.at_s
LEFT JOIN (SELECT case_id, withdrawn_at FROM v_withdrawals WHERE run_id = 'live') AS w ON w.case_id = c.case_id;

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

-- 2. What a correct signal cost: all that was spent in the run, over the signals that proved right at that horizon. While
-- outcomes are missing this is an upper bound: outcome_share says of how many signals with a direction the outcome counts.
CREATE OR REPLACE VIEW v_cost_per_correct_signal AS
SELECT j.run_id AS run_id, j.horizon_s AS horizon_s, j.signals AS signals, j.with_direction AS with_direction,
       j.counted AS counted, if(j.with_direction = 0, 0, j.counted / j.with_direction) AS outcome_share,
       j.correct AS correct, j.withdrawn AS withdrawn,
       c.calls AS calls, c.total_cost_usd AS total_cost_usd, c.unpriced_calls AS unpriced_calls,
       if(c.calls = 0, 0, c.unpriced_calls / c.calls) AS unpriced_share,
       toFloat64(c.total_cost_usd) / nullIf(j.signals, 0) AS cost_per_signal_usd,
       toFloat64(c.total_cost_usd) / nullIf(j.correct, 0) AS cost_per_correct_signal_usd
FROM
(
    SELECT run_id, horizon_s, count() AS signals, countIf(side != 0) AS with_direction,
           countIf(standing = 'counted') AS counted, countIf(hit = 1) AS correct, countIf(standing = 'withdrawn') AS withdrawn
    FROM v_judged_outcomes GROUP BY run_id, horizon_s
) AS j
LEFT JOIN
(
    SELECT run_id, count() AS calls, sum(cost_usd) AS total_cost_usd, countIf(cost_usd IS NULL) AS unpriced_calls
    FROM v_calls WHERE execution = 'executed' GROUP BY run_id
) AS c ON c.run_id = j.run_id
ORDER BY run_id, horizon_s;

-- 5. Does search help? Brier score: the mean of (confidence - hit)², 0 is best, 0.25 is what always saying 0.5 gets. A gain
-- above 0 means that the final confidence is nearer to what happened than triage's was. searched = 0 is there to compare.
CREATE OR REPLACE VIEW v_search_help AS
SELECT j.run_id AS run_id, s.case_id != '' AS searched, j.horizon_s AS horizon_s,
       countIf(standing = 'counted') AS cases,
       uniqExactIf(story_id, standing = 'counted') AS stories,
       avg(pow(preliminary_confidence - hit, 2)) AS brier_preliminary,
       avg(pow(confidence - hit, 2)) AS brier_final,
       brier_preliminary - brier_final AS brier_gain,
       countIf(standing = 'neutral') AS neutral,
       countIf(standing = 'withdrawn') AS withdrawn,
       countIf(standing NOT IN ('counted', 'neutral', 'withdrawn')) AS without_outcome
FROM v_judged_outcomes AS j
LEFT JOIN (SELECT run_id, case_id FROM tool_calls FINAL WHERE tool_name = 'search' GROUP BY run_id, case_id) AS s
    ON s.run_id = j.run_id AND s.case_id = j.case_id
GROUP BY run_id, searched, horizon_s
ORDER BY run_id, searched, horizon_s;

-- 6. Reliability: in ten equal bins of confidence, how often did signals of that confidence prove right? The last bin holds 1.
CREATE OR REPLACE VIEW v_reliability AS
SELECT run_id, horizon_s, least(9, toInt32(floor(confidence * 10 + 1e-9))) / 10 AS confidence_from,
       count() AS cases,
       uniqExact(story_id) AS stories,
       avg(confidence) AS mean_confidence,
       avg(assumeNotNull(hit)) AS hit_rate,
       hit_rate - mean_confidence AS gap
FROM v_judged_outcomes
WHERE standing = 'counted'
GROUP BY run_id, horizon_s, confidence_from
ORDER BY run_id, horizon_s, confidence_from;

-- ECE: the mean of |gap| over those bins, weighed by cases (expected calibration error; Guo et al. 2017, arXiv:1706.04599).
CREATE OR REPLACE VIEW v_calibration AS
SELECT run_id, horizon_s,
       sum(bin_cases) AS cases,
       sum(bin_hits) / cases AS hit_rate,
       sum(bin_confidence) / cases AS mean_confidence,
       sum(bin_squares) / cases AS brier,
       sum(abs(bin_hits - bin_confidence)) / cases AS ece
FROM
(
    SELECT run_id, horizon_s, least(9, toInt32(floor(confidence * 10 + 1e-9))) AS bin, count() AS bin_cases,
           sum(assumeNotNull(hit)) AS bin_hits, sum(confidence) AS bin_confidence,
           sum(pow(confidence - assumeNotNull(hit), 2)) AS bin_squares
    FROM v_judged_outcomes WHERE standing = 'counted' GROUP BY run_id, horizon_s, bin
)
GROUP BY run_id, horizon_s
ORDER BY run_id, horizon_s;

-- 7. Hit rate and return (in the direction of the signal, without fees) by confidence and horizon. A story counts once, with
-- the first of its cases that counts: ten reports of one event are one chance to be right.
CREATE OR REPLACE VIEW v_hit_rate AS
SELECT run_id, least(9, toInt32(floor(tupleElement(first, 1) * 10 + 1e-9))) / 10 AS confidence_from, horizon_s,
       count() AS stories,
       sum(cases) AS cases_of_stories,
       sum(tupleElement(first, 2)) AS hits,
       hits / stories AS hit_rate,
       avg(tupleElement(first, 3)) AS mean_return,
       quantileExactInclusive(0.5)(tupleElement(first, 3)) AS median_return
FROM
(
    SELECT run_id, story_id, horizon_s, uniqExact(case_id) AS cases,
           argMin(tuple(confidence, assumeNotNull(hit), assumeNotNull(directed_return)), tuple(knowable_at, case_id, repeat)) AS first
    FROM v_judged_outcomes WHERE standing = 'counted' GROUP BY run_id, story_id, horizon_s
)
GROUP BY run_id, confidence_from, horizon_s
ORDER BY run_id, confidence_from, horizon_s;

-- 9. Run A beside run B, case by case: the means over repeats, and the action of the first. Filter by both run ids.
CREATE OR REPLACE VIEW v_run_case_means AS
SELECT c.run_id AS run_id, c.case_id AS case_id, any(c.story_id) AS story,
       argMin(c.has_signal, c.repeat) AS signalled, argMin(c.asset, c.repeat) AS first_asset,
       argMin(c.action, c.repeat) AS first_action,
       if(countIf(c.has_signal) = 0, NULL, avgIf(c.confidence, c.has_signal)) AS mean_confidence,
       sum(c.cost_usd) AS total_cost_usd, sum(c.unpriced_calls) AS unpriced, avg(c.latency_ms) AS mean_latency_ms,
       count() AS repeats
FROM v_run_cases AS c
WHERE c.status = 'replayed'
GROUP BY run_id, case_id;

CREATE OR REPLACE VIEW v_run_pairs AS
SELECT a.run_id AS a_run_id, b.run_id AS b_run_id, a.case_id AS case_id, a.story AS story_id,
       a.signalled AS a_has_signal, b.signalled AS b_has_signal,
       a.first_asset AS a_asset, b.first_asset AS b_asset, a.first_action AS a_action, b.first_action AS b_action,
       a.mean_confidence AS a_confidence, b.mean_confidence AS b_confidence,
       b.mean_confidence - a.mean_confidence AS confidence_change,
       a.first_action != b.first_action AS action_flipped,
       a.total_cost_usd AS a_cost_usd, b.total_cost_usd AS b_cost_usd,
       a.unpriced AS a_unpriced_calls, b.unpriced AS b_unpriced_calls,
       a.mean_latency_ms AS a_latency_ms, b.mean_latency_ms AS b_latency_ms,
       a.repeats AS a_repeats, b.repeats AS b_repeats
FROM v_run_case_means AS a
INNER JOIN v_run_case_means AS b ON b.case_id = a.case_id
WHERE a.run_id != b.run_id;

-- The same for what became of the signals: cases that count in both runs. a_only and b_only are what McNemar's test weighs.
CREATE OR REPLACE VIEW v_run_pair_outcomes AS
SELECT a.run_id AS a_run_id, b.run_id AS b_run_id, a.horizon_s AS horizon_s,
       count() AS cases,
       uniqExact(a.story_id) AS stories,
       sum(a.hit) AS a_hits, sum(b.hit) AS b_hits,
       countIf(a.hit > b.hit) AS a_only, countIf(b.hit > a.hit) AS b_only,
       avg(pow(a.confidence - a.hit, 2)) AS a_brier, avg(pow(b.confidence - b.hit, 2)) AS b_brier,
       b_brier - a_brier AS brier_change,
       avg(a.directed_return) AS a_mean_return, avg(b.directed_return) AS b_mean_return
FROM
(
    SELECT run_id, case_id, horizon_s, story_id, confidence, assumeNotNull(hit) AS hit, assumeNotNull(directed_return) AS directed_return
    FROM v_judged_outcomes WHERE standing = 'counted' AND repeat = 0
) AS a
INNER JOIN
(
    SELECT run_id, case_id, horizon_s, confidence, assumeNotNull(hit) AS hit, assumeNotNull(directed_return) AS directed_return
    FROM v_judged_outcomes WHERE standing = 'counted' AND repeat = 0
) AS b ON b.case_id = a.case_id AND b.horizon_s = a.horizon_s
WHERE a.run_id != b.run_id
GROUP BY a_run_id, b_run_id, horizon_s
ORDER BY a_run_id, b_run_id, horizon_s;

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
