-- Schema 2 of a signal: `stage` (how far the case got) and `verdict` (what was found of the claim) instead of one `status`.
-- Rows of schema 1 get theirs by the same rules as `schemas.upcasts`: its rules had no word for a claim that was confirmed
-- or likely, so none of them ever is.

ALTER TABLE signals ADD COLUMN IF NOT EXISTS stage LowCardinality(String)
    DEFAULT if(status IN ('preliminary', 'superseded', 'retracted'), status, 'final')
    COMMENT 'preliminary, final, superseded or retracted';
ALTER TABLE signals ADD COLUMN IF NOT EXISTS verdict LowCardinality(String)
    DEFAULT multiIf(status IN ('preliminary', 'preliminary_only'), 'unchecked',
                    has(risk_flags, 'refuted'), 'refuted',
                    tupleElement(adjustments[1], 'rule') = 'denied_or_conflict', 'disputed',
                    tupleElement(adjustments[1], 'rule') = 'stale', 'stale',
                    tupleElement(adjustments[1], 'rule') IN ('few_sources', 'no_evidence'), 'unconfirmed',
                    '')
    COMMENT 'confirmed, likely, unconfirmed, stale, disputed, refuted or unchecked; empty: schema 1 had no word for it';
ALTER TABLE signals ADD COLUMN IF NOT EXISTS unchecked_reason LowCardinality(String)
    DEFAULT if(status = 'preliminary', 'preliminary', '')
    COMMENT 'why the verdict is unchecked; empty with any other verdict, and where schema 1 did not say';
ALTER TABLE signals ADD COLUMN IF NOT EXISTS supporting_sources Nullable(UInt16)
    COMMENT 'supporting pages, once per owner; null: schema 1 did not count them';
ALTER TABLE signals ADD COLUMN IF NOT EXISTS summary_zh String CODEC(ZSTD(3)) COMMENT 'empty: nobody wrote it';
ALTER TABLE signals ADD COLUMN IF NOT EXISTS summary_en String CODEC(ZSTD(3)) COMMENT 'empty: nobody wrote it';
ALTER TABLE signals MODIFY COLUMN IF EXISTS evidence
    Array(Tuple(url String, hash String, stance String, official UInt8, independent UInt8,
                published_at Nullable(DateTime64(3, 'UTC')), quote Nullable(String), reference_number UInt16));
-- Not dropped: the defaults above read it, and the views of m002 and m004, which a start that died runs again, name it.
ALTER TABLE signals MODIFY COLUMN IF EXISTS status LowCardinality(String) DEFAULT ''
    COMMENT 'the one word of schema 1; empty in rows of schema 2, which have stage and verdict';

-- A judgement made by the old rules carries no verdict into a recall, which reads `signals` anyway. Keywords: of the news.
ALTER TABLE memories ADD COLUMN IF NOT EXISTS verdict LowCardinality(String) COMMENT 'empty: schema 1';
ALTER TABLE memories ADD COLUMN IF NOT EXISTS keywords Array(String) CODEC(ZSTD(1)) COMMENT 'keywords_hit of the news, in lower case';
ALTER TABLE memories DROP COLUMN IF EXISTS status;

-- Only cases that came to their end have a signal here, so there is no stage. From the signal's JSON, which is kept as long as
-- the row; not columns that are written, for m003's `SELECT * FROM run_cases` has to fit its union when it runs again.
ALTER TABLE run_cases ADD COLUMN IF NOT EXISTS verdict LowCardinality(String)
    MATERIALIZED multiIf(JSONHas(signal, 'verdict'), JSONExtractString(signal, 'verdict'),
                         JSONExtractString(signal, 'status') = 'preliminary_only', 'unchecked',
                         has(JSONExtract(signal, 'risk_flags', 'Array(String)'), 'refuted'), 'refuted',
                         JSONExtractString(signal, 'adjustments', 1, 'rule') = 'denied_or_conflict', 'disputed',
                         JSONExtractString(signal, 'adjustments', 1, 'rule') = 'stale', 'stale',
                         JSONExtractString(signal, 'adjustments', 1, 'rule') IN ('few_sources', 'no_evidence'), 'unconfirmed',
                         '')
    COMMENT 'of the signal; empty: no signal, or schema 1 had no word for it';
ALTER TABLE run_cases ADD COLUMN IF NOT EXISTS supporting_sources Nullable(UInt16)
    MATERIALIZED JSONExtract(signal, 'supporting_sources', 'Nullable(UInt16)') COMMENT 'null: no signal, or of schema 1';

-- What the critic read on each page. Taken when the row comes in, as knowable_at is: bodies are emptied after 90 days. A field
-- that a record leaves out has its default, which is not that of JSONExtract: hence the nullable ones.
ALTER TABLE events ADD COLUMN IF NOT EXISTS stances
    Array(Tuple(reference_number UInt16, stance String, quote Nullable(String), reason String, same_subject Nullable(Bool),
                same_event Nullable(Bool), amount String, speaks_for String, cites Nullable(String)))
    DEFAULT if(event_type = 'newsproof.evidence_critiqued',
               JSONExtract(payload, 'stances', 'Array(Tuple(reference_number UInt16, stance String, quote Nullable(String), reason String, same_subject Nullable(Bool), same_event Nullable(Bool), amount String, speaks_for String, cites Nullable(String)))'),
               [])
    COMMENT 'of evidence_critiqued alone; v_stances has a row for each';
ALTER TABLE events ADD COLUMN IF NOT EXISTS unquoted Array(UInt16)
    DEFAULT if(event_type = 'newsproof.evidence_critiqued', JSONExtract(payload, 'unquoted', 'Array(UInt16)'), [])
    COMMENT 'of evidence_critiqued alone: references whose quote is not on the page';

-- The revision of each signal that counts.
CREATE OR REPLACE VIEW v_signals AS
SELECT * EXCEPT (status) FROM signals FINAL
ORDER BY run_id, signal_id, revision DESC
LIMIT 1 BY run_id, signal_id;

-- Signals that another case denied or corrected. Known from when on that other news was knowable, not from when it was
-- processed: in a replay of old news the two lie years apart.
CREATE OR REPLACE VIEW v_withdrawals AS
SELECT r.run_id AS run_id, r.case_id AS case_id,
       argMin(r.stage, r.revision) AS withdrawn_as,
       min(if(d.knowable_at IS NULL, r.emitted_at, assumeNotNull(d.knowable_at))) AS withdrawn_at
FROM (SELECT run_id, case_id, revision, stage, cause_id, emitted_at FROM signals FINAL WHERE stage IN ('retracted', 'superseded')) AS r
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
SELECT * EXCEPT (status, first_knowable_at, withdrawn_as, withdrawn_at)
         REPLACE (ifNull(first_knowable_at, knowable_at) AS knowable_at),
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
    SELECT run_id, case_id, argMin(knowable_at, journal_offset) AS first_knowable_at FROM events
    WHERE event_type = 'newsproof.event_received' GROUP BY run_id, case_id
) AS o USING (run_id, case_id)
LEFT JOIN v_withdrawals AS w USING (run_id, case_id);

-- What each signal cost: every call of its case, passed-by ones included. Without calls the cost is null: nothing known.
CREATE OR REPLACE VIEW v_cost_per_signal AS
SELECT s.run_id AS run_id, s.signal_id AS signal_id, s.case_id AS case_id, s.asset AS asset, s.event_type AS event_type,
       s.verdict AS verdict, e.path AS path, c.calls AS calls, c.total_cost_usd AS total_cost_usd,
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

-- 3. From the news to the signal in the bots' hands. published_*: since the news was published, which for a replay of old
-- news is years; opened_*: since its case was opened.
CREATE OR REPLACE VIEW v_latency_to_signal AS
SELECT s.run_id AS run_id, s.verdict AS verdict, count() AS signals,
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
GROUP BY run_id, verdict
ORDER BY run_id, verdict;

-- verdict: the signal's. critique_verdict: the critic's own, empty where the case had none.
CREATE OR REPLACE VIEW v_confidence_delta AS
SELECT s.run_id AS run_id, s.news_source AS news_source, s.event_type AS event_type, s.verdict AS verdict,
       v.critique_verdict AS critique_verdict,
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
    SELECT run_id, case_id, argMax(outcome, journal_offset) AS critique_verdict FROM events FINAL
    WHERE event_type = 'newsproof.evidence_critiqued' GROUP BY run_id, case_id
) AS v ON v.run_id = s.run_id AND v.case_id = s.case_id
GROUP BY run_id, news_source, event_type, verdict, critique_verdict
ORDER BY run_id, news_source, event_type, verdict, critique_verdict;

-- 4. The whole distribution of the change, in steps of 0.1; the verdicts as above.
CREATE OR REPLACE VIEW v_confidence_delta_bins AS
SELECT s.run_id AS run_id, s.news_source AS news_source, s.event_type AS event_type, s.verdict AS verdict,
       v.critique_verdict AS critique_verdict,
       floor(round(s.confidence_delta * 10, 6)) / 10 AS delta_from,
       count() AS signals
FROM v_judgements AS s
LEFT JOIN
(
    SELECT run_id, case_id, argMax(outcome, journal_offset) AS critique_verdict FROM events FINAL
    WHERE event_type = 'newsproof.evidence_critiqued' GROUP BY run_id, case_id
) AS v ON v.run_id = s.run_id AND v.case_id = s.case_id
GROUP BY run_id, news_source, event_type, verdict, critique_verdict, delta_from
ORDER BY run_id, news_source, event_type, verdict, critique_verdict, delta_from;

-- Replayed cases, and beside them what was judged live, as run 'live', repeat 0. A live case is of the story that a run
-- found it to be of; before any run looked, of its own.
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
) AS c ON c.case_id = s.case_id;

-- Every signal of every run at every horizon, and whether it counts. A hit: the price moved the way that the signal said.
-- side: 1 bought, -1 sold, 0 neither; a signal that ends as observe leaves no order, whatever the claim would mean if true.
-- standing: counted, or why not (neutral: side 0). Outcomes belong to cases and are shared by all runs, so a run that named
-- another asset has no outcome there; an entry before the news was knowable is never used; a signal that was withdrawn before
-- the horizon was over was not held that long.
CREATE OR REPLACE VIEW v_judged_outcomes AS
SELECT c.run_id AS run_id, c.case_id AS case_id, c.repeat AS repeat, c.story_id AS story_id, c.at_s AS horizon_s,
       c.language AS language, c.source AS news_source, c.event_type AS event_type, c.asset AS asset,
       c.action AS action, c.direction AS direction, c.verdict AS verdict,
       c.preliminary_confidence AS preliminary_confidence, c.confidence AS confidence, c.knowable_at AS knowable_at,
       o.entry_at AS entry_at, o.exit_at AS exit_at, o.return AS market_return, o.source AS price_source,
       o.asset AS outcome_asset, o.case_id != '' AS has_outcome,
       multiIf(c.action = 'observe', 0, c.direction = 'long', 1, c.direction = 'short', -1, 0) AS side,
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
    SELECT run_id, case_id, repeat, story_id, language, source, event_type, asset, action, direction, verdict,
           preliminary_confidence, confidence, knowable_at, arrayJoin([300, 3600, 14400, 86400]) AS at_s
    FROM v_run_cases WHERE has_signal
) AS c
LEFT JOIN (SELECT case_id, horizon_s, asset, entry_at, exit_at, return, source FROM outcomes FINAL) AS o
    ON o.case_id = c.case_id AND o.horizon_s = c.at_s
LEFT JOIN (SELECT case_id, withdrawn_at FROM v_withdrawals WHERE run_id = 'live') AS w ON w.case_id = c.case_id;

-- 9. Run A beside run B, case by case: the means over repeats, and the action and verdict of the first. Filter by both run ids.
CREATE OR REPLACE VIEW v_run_case_means AS
SELECT c.run_id AS run_id, c.case_id AS case_id, any(c.story_id) AS story,
       argMin(c.has_signal, c.repeat) AS signalled, argMin(c.asset, c.repeat) AS first_asset,
       argMin(c.action, c.repeat) AS first_action, argMin(c.verdict, c.repeat) AS first_verdict,
       if(countIf(c.has_signal) = 0, NULL, avgIf(c.confidence, c.has_signal)) AS mean_confidence,
       sum(c.cost_usd) AS total_cost_usd, sum(c.unpriced_calls) AS unpriced, avg(c.latency_ms) AS mean_latency_ms,
       count() AS repeats
FROM v_run_cases AS c
WHERE c.status = 'replayed'
GROUP BY run_id, case_id;

-- verdict_flipped: null where either signal has no verdict to compare (schema 1, or no signal).
CREATE OR REPLACE VIEW v_run_pairs AS
SELECT a.run_id AS a_run_id, b.run_id AS b_run_id, a.case_id AS case_id, a.story AS story_id,
       a.signalled AS a_has_signal, b.signalled AS b_has_signal,
       a.first_asset AS a_asset, b.first_asset AS b_asset, a.first_action AS a_action, b.first_action AS b_action,
       a.first_verdict AS a_verdict, b.first_verdict AS b_verdict,
       a.mean_confidence AS a_confidence, b.mean_confidence AS b_confidence,
       b.mean_confidence - a.mean_confidence AS confidence_change,
       a.first_action != b.first_action AS action_flipped,
       if(a.first_verdict = '' OR b.first_verdict = '', NULL, a.first_verdict != b.first_verdict) AS verdict_flipped,
       a.total_cost_usd AS a_cost_usd, b.total_cost_usd AS b_cost_usd,
       a.unpriced AS a_unpriced_calls, b.unpriced AS b_unpriced_calls,
       a.mean_latency_ms AS a_latency_ms, b.mean_latency_ms AS b_latency_ms,
       a.repeats AS a_repeats, b.repeats AS b_repeats
FROM v_run_case_means AS a
INNER JOIN v_run_case_means AS b ON b.case_id = a.case_id
WHERE a.run_id != b.run_id;

-- What the critic read, one row for each page that it was shown, with the version of its prompt. quoted = 0: the quote is not on
-- the page, so that the stance counted as unrelated. Journals only: a replay's critique is not in `events`.
CREATE OR REPLACE VIEW v_stances AS
SELECT e.run_id AS run_id, e.case_id AS case_id, e.event_id AS event_id, e.event_time AS event_time,
       e.critique_verdict AS critique_verdict, p.prompt_version AS prompt_version, p.request_model AS request_model,
       tupleElement(e.page, 'reference_number') AS reference_number,
       tupleElement(e.page, 'stance') AS stance,
       NOT has(e.unquoted, reference_number) AS quoted,
       tupleElement(e.page, 'quote') AS quote,
       tupleElement(e.page, 'reason') AS reason,
       ifNull(tupleElement(e.page, 'same_subject'), true) AS same_subject,
       ifNull(tupleElement(e.page, 'same_event'), true) AS same_event,
       if(tupleElement(e.page, 'amount') = '', 'silent', tupleElement(e.page, 'amount')) AS amount,
       if(tupleElement(e.page, 'speaks_for') = '', 'other', tupleElement(e.page, 'speaks_for')) AS speaks_for,
       tupleElement(e.page, 'cites') AS cites
FROM
(
    SELECT run_id, case_id, event_id, event_time, step, outcome AS critique_verdict, unquoted, arrayJoin(stances) AS page
    FROM events FINAL WHERE event_type = 'newsproof.evidence_critiqued'
) AS e
LEFT JOIN
(
    SELECT run_id, case_id, step, argMax(prompt_version, tuple(journal_offset, call_index)) AS prompt_version,
           argMax(request_model, tuple(journal_offset, call_index)) AS request_model
    FROM llm_calls FINAL WHERE accepted GROUP BY run_id, case_id, step
) AS p ON p.run_id = e.run_id AND p.case_id = e.case_id AND p.step = e.step;
