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

-- The news in a table of its own, a row a case, so that whoever looks for a text, a source or an external id reads neither the
-- bodies of all other events nor JSON. A copy: `events.payload` stays the record's value. Text and author are emptied when that is.
CREATE TABLE IF NOT EXISTS news
(
    run_id            LowCardinality(String),
    case_id           String CODEC(ZSTD(1)),
    event_id          String CODEC(ZSTD(1)),
    source            LowCardinality(String),
    external_id       String CODEC(ZSTD(1)),
    url               String CODEC(ZSTD(1)),
    author            String CODEC(ZSTD(1)) TTL ingested_at + INTERVAL 90 DAY,
    language          LowCardinality(String),
    text              String CODEC(ZSTD(3)) TTL ingested_at + INTERVAL 90 DAY,
    text_hash         String CODEC(ZSTD(1)),
    keywords          Array(String) CODEC(ZSTD(1)),
    published_at      DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    received_at       Nullable(DateTime64(3, 'UTC')),
    opened_at         DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    journal_topic     LowCardinality(String),
    journal_partition UInt16,
    journal_offset    UInt64,
    ingested_at       DateTime('UTC') DEFAULT now(),
    first_wins        UInt64
)
ENGINE = ReplacingMergeTree(first_wins)
PARTITION BY toYYYYMM(opened_at)
ORDER BY (run_id, case_id)
TTL ingested_at + INTERVAL 180 DAY DELETE WHERE run_id != 'live'
SETTINGS non_replicated_deduplication_window = 10000;

-- What is there already. A case whose body was emptied has nothing to copy. Run twice, it copies rows of the same keys.
INSERT INTO news (run_id, case_id, event_id, source, external_id, url, author, language, text, text_hash, keywords, published_at, received_at, opened_at, journal_topic, journal_partition, journal_offset, ingested_at, first_wins)
SELECT run_id, case_id, event_id,
       JSONExtractString(payload, 'news', 'source'), JSONExtractString(payload, 'news', 'external_id'),
       JSONExtractString(payload, 'news', 'url'), JSONExtractString(payload, 'news', 'author'),
       JSONExtractString(payload, 'language'), JSONExtractString(payload, 'news', 'text'),
       JSONExtractString(payload, 'text_hash'), JSONExtract(payload, 'news', 'keywords_hit', 'Array(String)'),
       parseDateTime64BestEffortOrZero(JSONExtractString(payload, 'news', 'published_at'), 3, 'UTC'),
       parseDateTime64BestEffortOrNull(JSONExtractString(payload, 'news', 'received_at'), 3, 'UTC'),
       event_time, journal_topic, journal_partition, journal_offset, ingested_at, first_wins
FROM events
WHERE event_type = 'newsproof.event_received' AND payload != '';

-- Signals by asset and time, beside the table's own order. The table keeps (run_id, signal_id, revision): FINAL replaces
-- rows of one sorting key, so the key must hold nothing that a zombie's second version of a revision may say otherwise,
-- and recall asks for signals by id (sorted by asset, that took 145 ms instead of 6 over a million). Merges make it anew,
-- for they drop rows.
ALTER TABLE signals MODIFY SETTING deduplicate_merge_projection_mode = 'rebuild';
ALTER TABLE signals ADD PROJECTION IF NOT EXISTS by_asset_and_time
(
    SELECT run_id, asset, decided_at, emitted_at, signal_id, revision, case_id, event_type, action, direction, confidence,
           stage, verdict, first_wins
    ORDER BY run_id, upper(asset), decided_at
);
ALTER TABLE signals MATERIALIZE PROJECTION IF EXISTS by_asset_and_time;
