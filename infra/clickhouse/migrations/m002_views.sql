-- Questions of the analysts, over FINAL: exactness is promised here, not for the tables. Plain views, no incremental
-- aggregates, for a redelivery would inflate those. Money: sum() of nulls alone is null, and every sum stands beside the
-- number and share of calls whose price is unknown.

-- Every call, of models and of tools.
CREATE OR REPLACE VIEW v_calls AS
SELECT run_id, case_id, event_id, journal_offset, call_index, accepted, step, 'model' AS kind, provider_name, provider_mode,
       request_model, prompt_name, prompt_version, usage_input_tokens, usage_cache_read_input_tokens, usage_output_tokens,
       usage_reasoning_output_tokens, cost_usd, avoided_cost_usd, latency_ms, error_type, execution, cached, request_hash,
       as_of, started_at
FROM llm_calls FINAL
UNION ALL
SELECT run_id, case_id, event_id, journal_offset, call_index, accepted, step, tool_name AS kind, provider_name, provider_mode,
       '' AS request_model, '' AS prompt_name, '' AS prompt_version, 0 AS usage_input_tokens,
       0 AS usage_cache_read_input_tokens, 0 AS usage_output_tokens, 0 AS usage_reasoning_output_tokens, cost_usd,
       avoided_cost_usd, latency_ms, error_type, execution, cached, request_hash, as_of, started_at
FROM tool_calls FINAL;

-- The revision of each signal that counts.
CREATE OR REPLACE VIEW v_signals AS
SELECT * FROM signals FINAL
ORDER BY run_id, signal_id, revision DESC
LIMIT 1 BY run_id, signal_id;

-- The last judgement of each case: retractions that came later are left out, and so is a preliminary revision.
CREATE OR REPLACE VIEW v_judgements AS
SELECT * FROM signals FINAL
WHERE status IN ('verified', 'degraded', 'preliminary_only')
ORDER BY run_id, signal_id, revision DESC
LIMIT 1 BY run_id, signal_id;

CREATE OR REPLACE VIEW v_cost_by_step AS
SELECT run_id, step,
       count() AS calls,
       countIf(kind = 'model') AS llm_calls,
       countIf(kind != 'model') AS tool_calls,
       sum(cost_usd) AS total_cost_usd,
       countIf(cost_usd IS NULL) AS unpriced_calls,
       unpriced_calls / calls AS unpriced_share,
       sum(usage_input_tokens) AS input_tokens,
       sum(usage_output_tokens) AS output_tokens,
       countIf(error_type != '') AS failed_calls,
       countIf(accepted = 0) AS passed_by_calls,
       groupUniqArray(provider_mode) AS provider_modes
FROM v_calls
GROUP BY run_id, step
ORDER BY run_id, step;

CREATE OR REPLACE VIEW v_spend AS
SELECT run_id, toDate(started_at) AS day, step, provider_name, request_model, prompt_name, prompt_version,
       count() AS calls,
       sum(cost_usd) AS total_cost_usd,
       countIf(cost_usd IS NULL) AS unpriced_calls,
       unpriced_calls / calls AS unpriced_share,
       sum(avoided_cost_usd) AS total_avoided_cost_usd,
       sum(usage_input_tokens) AS input_tokens,
       sum(usage_cache_read_input_tokens) AS cached_input_tokens,
       sum(usage_output_tokens) AS output_tokens,
       sum(usage_reasoning_output_tokens) AS reasoning_tokens
FROM v_calls
GROUP BY run_id, day, step, provider_name, request_model, prompt_name, prompt_version
ORDER BY run_id, day, step, provider_name, request_model, prompt_name, prompt_version;

CREATE OR REPLACE VIEW v_calls_by_provider AS
SELECT run_id, provider_name, kind, provider_mode,
       count() AS calls,
       countIf(error_type != '') AS failed_calls,
       1 - failed_calls / calls AS success_share,
       countIf(cached) AS cached_calls,
       quantile(0.5)(latency_ms) AS p50_ms,
       quantile(0.95)(latency_ms) AS p95_ms,
       quantile(0.99)(latency_ms) AS p99_ms,
       sum(cost_usd) AS total_cost_usd,
       countIf(cost_usd IS NULL) AS unpriced_calls
FROM v_calls
GROUP BY run_id, provider_name, kind, provider_mode
ORDER BY run_id, provider_name, kind, provider_mode;

-- What each signal cost: every call of its case, passed-by ones included. Without calls the cost is null: nothing known.
CREATE OR REPLACE VIEW v_cost_per_signal AS
SELECT s.run_id AS run_id, s.signal_id AS signal_id, s.case_id AS case_id, s.asset AS asset, s.event_type AS event_type,
       s.status AS status, e.path AS path, c.calls AS calls, c.total_cost_usd AS total_cost_usd,
       c.unpriced_calls AS unpriced_calls
FROM v_judgements AS s
LEFT JOIN
(
    SELECT run_id, case_id, count() AS calls, sum(cost_usd) AS total_cost_usd, countIf(cost_usd IS NULL) AS unpriced_calls
    FROM v_calls GROUP BY run_id, case_id
) AS c ON c.run_id = s.run_id AND c.case_id = s.case_id
LEFT JOIN
(
    SELECT run_id, case_id, any(outcome) AS path FROM events FINAL
    WHERE event_type = 'newsproof.signal_synthesized' GROUP BY run_id, case_id
) AS e ON e.run_id = s.run_id AND e.case_id = s.case_id;

-- All that was spent, also on cases that gave no signal, over the signals that it bought.
CREATE OR REPLACE VIEW v_cost_per_signal_by_run AS
SELECT c.run_id AS run_id, s.signals AS signals, c.calls AS calls, c.total_cost_usd AS total_cost_usd,
       c.unpriced_calls AS unpriced_calls, c.unpriced_calls / c.calls AS unpriced_share,
       if(s.signals = 0, NULL, toFloat64(c.total_cost_usd) / s.signals) AS cost_per_signal_usd
FROM
(
    SELECT run_id, count() AS calls, sum(cost_usd) AS total_cost_usd, countIf(cost_usd IS NULL) AS unpriced_calls
    FROM v_calls GROUP BY run_id
) AS c
LEFT JOIN (SELECT run_id, count() AS signals FROM v_judgements GROUP BY run_id) AS s ON s.run_id = c.run_id
ORDER BY run_id;

-- From a step's cause to its result. Partial replies, failures and restarts are no results; failures are counted beside.
CREATE OR REPLACE VIEW v_latency_by_step AS
SELECT run_id, step,
       countIf(done) AS results,
       countIf(event_type = 'newsproof.step_failed') AS failures,
       quantileIf(0.5)(step_latency_ms, done) AS p50_ms,
       quantileIf(0.95)(step_latency_ms, done) AS p95_ms,
       quantileIf(0.99)(step_latency_ms, done) AS p99_ms,
       maxIf(step_latency_ms, done) AS max_ms
FROM
(
    SELECT run_id, step, event_type, step_latency_ms,
           event_type NOT IN ('newsproof.step_failed', 'newsproof.step_started', 'newsproof.effect_completed') AS done
    FROM events FINAL WHERE step != ''
)
GROUP BY run_id, step
ORDER BY run_id, step;

-- From the news to the signal in the bots' hands. published_*: since the news was published, which for a replay of old
-- news is years; opened_*: since its case was opened.
CREATE OR REPLACE VIEW v_latency_to_signal AS
SELECT s.run_id AS run_id, s.status AS status, count() AS signals,
       quantile(0.5)(dateDiff('millisecond', s.published_at, s.emitted_at)) AS published_p50_ms,
       quantile(0.95)(dateDiff('millisecond', s.published_at, s.emitted_at)) AS published_p95_ms,
       quantile(0.99)(dateDiff('millisecond', s.published_at, s.emitted_at)) AS published_p99_ms,
       quantile(0.5)(dateDiff('millisecond', o.opened_at, s.emitted_at)) AS opened_p50_ms,
       quantile(0.95)(dateDiff('millisecond', o.opened_at, s.emitted_at)) AS opened_p95_ms,
       quantile(0.99)(dateDiff('millisecond', o.opened_at, s.emitted_at)) AS opened_p99_ms
FROM v_judgements AS s
INNER JOIN
(
    SELECT run_id, case_id, min(event_time) AS opened_at FROM events FINAL
    WHERE event_type = 'newsproof.event_received' GROUP BY run_id, case_id
) AS o ON o.run_id = s.run_id AND o.case_id = s.case_id
GROUP BY run_id, status
ORDER BY run_id, status;

CREATE OR REPLACE VIEW v_confidence_delta_by_event_type AS
SELECT run_id, event_type,
       count() AS signals,
       avg(preliminary_confidence) AS mean_preliminary,
       avg(confidence) AS mean_final,
       avg(confidence_delta) AS mean_delta,
       quantile(0.1)(confidence_delta) AS p10_delta,
       quantile(0.5)(confidence_delta) AS p50_delta,
       quantile(0.9)(confidence_delta) AS p90_delta,
       countIf(confidence_delta > 0) AS raised,
       countIf(confidence_delta < 0) AS lowered
FROM v_judgements
GROUP BY run_id, event_type
ORDER BY run_id, event_type;

-- verdict: the critique's, empty where the case had none.
CREATE OR REPLACE VIEW v_confidence_delta AS
SELECT s.run_id AS run_id, s.news_source AS news_source, s.event_type AS event_type, v.verdict AS verdict,
       count() AS signals,
       avg(s.preliminary_confidence) AS mean_preliminary,
       avg(s.confidence) AS mean_final,
       avg(s.confidence_delta) AS mean_delta,
       quantile(0.1)(s.confidence_delta) AS p10_delta,
       quantile(0.5)(s.confidence_delta) AS p50_delta,
       quantile(0.9)(s.confidence_delta) AS p90_delta
FROM v_judgements AS s
LEFT JOIN
(
    SELECT run_id, case_id, argMax(outcome, journal_offset) AS verdict FROM events FINAL
    WHERE event_type = 'newsproof.evidence_critiqued' GROUP BY run_id, case_id
) AS v ON v.run_id = s.run_id AND v.case_id = s.case_id
GROUP BY run_id, news_source, event_type, verdict
ORDER BY run_id, news_source, event_type, verdict;

-- Which rule moved confidence, how often and how far.
CREATE OR REPLACE VIEW v_adjustments AS
SELECT run_id, event_type, tupleElement(adjustment, 'rule') AS rule,
       count() AS signals,
       avg(tupleElement(adjustment, 'amount')) AS mean_amount,
       sum(tupleElement(adjustment, 'amount')) AS total_amount
FROM v_judgements
ARRAY JOIN adjustments AS adjustment
GROUP BY run_id, event_type, rule
ORDER BY run_id, event_type, rule;

-- Does searching move anything? Searches and their cost against the size of the change, in steps of 0.1.
CREATE OR REPLACE VIEW v_search_cost_by_delta AS
SELECT s.run_id AS run_id,
       floor(abs(s.confidence_delta) * 10 + 1e-9) / 10 AS delta_from,
       count() AS signals,
       avg(c.searches) AS mean_searches,
       sum(if(c.searches = 0, 0, c.search_cost_usd)) AS total_search_cost_usd,
       avg(if(c.searches = 0, 0, toFloat64(c.search_cost_usd))) AS mean_search_cost_usd,
       sum(c.unpriced_searches) AS unpriced_searches
FROM v_judgements AS s
LEFT JOIN
(
    SELECT run_id, case_id, count() AS searches, sum(cost_usd) AS search_cost_usd, countIf(cost_usd IS NULL) AS unpriced_searches
    FROM tool_calls FINAL WHERE tool_name IN ('search', 'scrape') GROUP BY run_id, case_id
) AS c ON c.run_id = s.run_id AND c.case_id = s.case_id
GROUP BY run_id, delta_from
ORDER BY run_id, delta_from;

-- What would make the figures untrue. Every check that has data says so with a row, also with 0 violations.
CREATE OR REPLACE VIEW v_trust_checks AS
SELECT run_id, 'evidence_newer_than_case' AS check,
       countIf(arrayExists(e -> ifNull(tupleElement(e, 'published_at') > knowable_at, 0), evidence)) AS violations
FROM v_judgements GROUP BY run_id
UNION ALL
SELECT run_id, 'unpriced_calls' AS check, countIf(cost_usd IS NULL) AS violations FROM v_calls GROUP BY run_id
UNION ALL
SELECT s.run_id AS run_id, 'entry_before_knowable' AS check, countIf(o.entry_at < s.knowable_at) AS violations
FROM v_judgements AS s INNER JOIN (SELECT * FROM outcomes FINAL) AS o ON o.case_id = s.case_id GROUP BY run_id
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
SELECT run_id, 'calls_paid_twice' AS check, sum(passed_by + greatest(toInt64(paid) - 1, 0)) AS violations
FROM
(
    SELECT run_id, countIf(accepted = 0) AS passed_by, countIf(accepted = 1) AS paid FROM v_calls
    WHERE execution = 'executed' AND (cost_usd IS NULL OR cost_usd > 0) GROUP BY run_id, case_id, request_hash
)
GROUP BY run_id;
