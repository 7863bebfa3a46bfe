-- As in m006, and the live cases that ended without a signal: a candidate that acts on what live dropped has to be seen. A case
-- that was dropped came to its end (replayed, without a signal), one that failed did not (failed).
CREATE OR REPLACE VIEW v_run_cases AS
SELECT *, verdict, supporting_sources FROM run_cases FINAL
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
       toUInt64(0) AS version,
       s.verdict AS verdict,
       s.supporting_sources AS supporting_sources
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
) AS c ON c.case_id = s.case_id
UNION ALL
SELECT 'live' AS run_id,
       d.case_id AS case_id,
       toUInt16(0) AS repeat,
       if(k.story = '', d.case_id, k.story) AS story_id,
       d.status AS status,
       d.reason AS reason,
       n.language AS language,
       n.source AS source,
       o.received_at AS received_at,
       ifNull(o.knowable_at, o.received_at) AS knowable_at,
       if(n.published_at = 0, o.received_at, n.published_at) AS published_at,
       toUInt8(0) AS has_signal,
       '' AS event_type,
       '' AS asset,
       '' AS action,
       '' AS direction,
       toUInt32(0) AS horizon_s,
       toFloat64(0) AS preliminary_confidence,
       toFloat64(0) AS confidence,
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
       '' AS notes,
       o.received_at AS started_at,
       toUInt64(0) AS version,
       '' AS verdict,
       CAST(NULL AS Nullable(UInt16)) AS supporting_sources
FROM
(
    SELECT case_id, any(outcome) AS reason, if(any(event_type) = 'newsproof.case_failed', 'failed', 'replayed') AS status
    FROM events
    WHERE run_id = 'live' AND event_type IN ('newsproof.case_dropped', 'newsproof.case_failed')
      AND case_id NOT IN (SELECT case_id FROM v_judgements WHERE run_id = 'live')
    GROUP BY case_id
) AS d
INNER JOIN
(
    SELECT case_id, min(event_time) AS received_at, argMin(knowable_at, journal_offset) AS knowable_at FROM events
    WHERE run_id = 'live' AND event_type = 'newsproof.event_received' GROUP BY case_id
) AS o ON o.case_id = d.case_id
LEFT JOIN (SELECT case_id, language, source, published_at FROM news FINAL WHERE run_id = 'live') AS n ON n.case_id = d.case_id
LEFT JOIN (SELECT case_id, argMax(story_id, version) AS story FROM run_cases GROUP BY case_id) AS k ON k.case_id = d.case_id
LEFT JOIN
(
    SELECT case_id, count() AS executed, sum(cost_usd) AS spent_usd, countIf(cost_usd IS NULL) AS unpriced,
           sum(latency_ms) AS took_ms
    FROM v_calls WHERE run_id = 'live' GROUP BY case_id
) AS c ON c.case_id = d.case_id;
