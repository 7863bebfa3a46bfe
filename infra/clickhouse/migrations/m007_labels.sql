-- What people found to be true or false. Not a projection of a journal: labels are imported. An import is a version, and of
-- each source the newest version counts alone, so that what it does not say any more is gone. Rows of one import are
-- inserted as one block, into one partition: all of them are there, or none.

CREATE TABLE IF NOT EXISTS labels
(
    source      LowCardinality(String),
    version     UInt64,
    case_id     String CODEC(ZSTD(1)),
    truth       LowCardinality(String),
    note        String CODEC(ZSTD(3)),
    labelled_at Nullable(DateTime64(3, 'UTC')),
    ingested_at DateTime('UTC') DEFAULT now()
)
ENGINE = ReplacingMergeTree
ORDER BY (source, version, case_id)
SETTINGS non_replicated_deduplication_window = 10000;

-- The labels that count.
CREATE OR REPLACE VIEW v_labels AS
SELECT source, case_id, truth, note, labelled_at, ingested_at, version
FROM labels FINAL
WHERE (source, version) IN (SELECT source, max(version) FROM labels GROUP BY source);

-- What the sources say together: whoever does not know says nothing, and two who disagree settle nothing.
CREATE OR REPLACE VIEW v_labelled_cases AS
SELECT l.case_id AS case_id,
       groupUniqArrayIf(l.truth, l.truth != 'unknown') AS said,
       multiIf(length(said) = 0, 'unknown', length(said) = 1, said[1], 'disputed') AS truth,
       count() AS labels,
       arraySort(groupArray(l.source)) AS sources
FROM v_labels AS l
GROUP BY case_id;

-- Judgements of labelled cases, live and of backtests. Confidence is about truth and a hit about price, so nothing here asks
-- for a price. was_true: null where the labels settle nothing (partly, disputed, unknown).
CREATE OR REPLACE VIEW v_judgement_on_labels AS
SELECT c.run_id AS run_id, c.case_id AS case_id, c.repeat AS repeat, c.story_id AS story_id,
       c.knowable_at AS knowable_at, c.event_type AS event_type, c.source AS news_source, c.language AS language,
       c.asset AS asset, c.action AS action, c.direction AS direction, c.verdict AS verdict,
       c.preliminary_confidence AS preliminary_confidence, c.confidence AS confidence,
       c.action IN ('buy', 'sell') AS acted,
       l.truth AS truth, l.labels AS labels, l.sources AS label_sources,
       multiIf(l.truth = 'true', toNullable(toUInt8(1)), l.truth = 'false', toNullable(toUInt8(0)), NULL) AS was_true,
       pow(c.confidence - was_true, 2) AS squared_error,
       c.verdict = 'confirmed' AND l.truth = 'false' AS confirmed_that_was_false,
       c.verdict = 'refuted' AND l.truth = 'true' AS refuted_that_was_true
FROM (SELECT * FROM v_run_cases WHERE has_signal) AS c
INNER JOIN v_labelled_cases AS l ON l.case_id = c.case_id;
