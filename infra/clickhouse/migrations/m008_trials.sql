-- The ledger of trials: which candidate looked at which cases, and which of them were sealed then. One row per run, written
-- before its first case is decided. Without a TTL, unlike the runs: who has looked at a period stays so.

CREATE TABLE IF NOT EXISTS trials
(
    run_id      String COMMENT 'the run that tried the candidate',
    trial       String COMMENT 'candidates that were tried together share it; empty: tried alone',
    candidate   String COMMENT 'hash of the changed prompts and models; empty: nothing was changed (A/A), no candidate',
    label       String COMMENT 'the change in words',
    changed     Array(LowCardinality(String)) COMMENT 'prompts and tasks of models that differ from the recorded ones',
    log         LowCardinality(String) COMMENT 'journal: of this installation; sample: the log that ships with the project',
    cases       UInt32 COMMENT 'in the period; of a sample more than were decided',
    cases_from  DateTime64(3, 'UTC') COMMENT 'when the first case of the period was received',
    cases_to    DateTime64(3, 'UTC') COMMENT 'when the last one was',
    sealed_from Nullable(DateTime64(3, 'UTC')) COMMENT 'cases received from then on were sealed when the run began; null: none',
    opened_seal UInt8 COMMENT '1: the period reaches into the sealed part',
    started_at  DateTime64(3, 'UTC') COMMENT 'wall time of the first start',
    version     UInt64 COMMENT 'the largest wins'
)
ENGINE = ReplacingMergeTree(version)
ORDER BY run_id
SETTINGS non_replicated_deduplication_window = 10000;
