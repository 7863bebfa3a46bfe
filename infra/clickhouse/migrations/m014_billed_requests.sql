-- Requests that a provider bills, which are more than calls: a search at depth advanced takes two credits, and one from the
-- cache none. Rows from before have 0: it was not kept.

ALTER TABLE tool_calls ADD COLUMN IF NOT EXISTS units UInt16 COMMENT 'billed requests';

CREATE OR REPLACE VIEW v_calls AS
SELECT run_id, case_id, event_id, journal_offset, call_index, accepted, step, 'model' AS kind, provider_name, provider_mode,
       request_model, prompt_name, prompt_version, usage_input_tokens, usage_cache_read_input_tokens, usage_output_tokens,
       usage_reasoning_output_tokens, cost_usd, avoided_cost_usd, latency_ms, error_type, execution, cached, request_hash,
       as_of, started_at, 0 AS units
FROM llm_calls FINAL
UNION ALL
SELECT run_id, case_id, event_id, journal_offset, call_index, accepted, step, tool_name AS kind, provider_name, provider_mode,
       '' AS request_model, '' AS prompt_name, '' AS prompt_version, 0 AS usage_input_tokens,
       0 AS usage_cache_read_input_tokens, 0 AS usage_output_tokens, 0 AS usage_reasoning_output_tokens, cost_usd,
       avoided_cost_usd, latency_ms, error_type, execution, cached, request_hash, as_of, started_at, units
FROM tool_calls FINAL;

CREATE OR REPLACE VIEW v_calls_by_provider AS
SELECT run_id, provider_name, kind, provider_mode,
       count() AS calls,
       countIf(error_type != '') AS failed_calls,
       1 - failed_calls / calls AS success_share,
       countIf(cached) AS cached_calls,
       sum(units) AS billed_requests,
       quantile(0.5)(latency_ms) AS p50_ms,
       quantile(0.95)(latency_ms) AS p95_ms,
       quantile(0.99)(latency_ms) AS p99_ms,
       sum(cost_usd) AS total_cost_usd,
       countIf(cost_usd IS NULL) AS unpriced_calls
FROM v_calls
GROUP BY run_id, provider_name, kind, provider_mode
ORDER BY run_id, provider_name, kind, provider_mode;

CREATE OR REPLACE VIEW v_search_cost_by_delta AS
SELECT s.run_id AS run_id,
       floor(abs(s.confidence_delta) * 10 + 1e-9) / 10 AS delta_from,
       count() AS signals,
       avg(c.searches) AS mean_searches,
       avg(c.billed_requests) AS mean_billed_requests,
       sum(if(c.searches = 0, 0, c.search_cost_usd)) AS total_search_cost_usd,
       avg(if(c.searches = 0, 0, toFloat64(c.search_cost_usd))) AS mean_search_cost_usd,
       sum(c.unpriced_searches) AS unpriced_searches
FROM v_judgements AS s
LEFT JOIN
(
    SELECT run_id, case_id, count() AS searches, sum(units) AS billed_requests, sum(cost_usd) AS search_cost_usd,
           countIf(cost_usd IS NULL) AS unpriced_searches
    FROM tool_calls FINAL WHERE tool_name IN ('search', 'scrape') GROUP BY run_id, case_id
) AS c ON c.run_id = s.run_id AND c.case_id = s.case_id
GROUP BY run_id, delta_from
ORDER BY run_id, delta_from;
