-- The ledger of looks: who saw the results of which candidates on which cases, and when first. Without a TTL, unlike the runs:
-- what was looked at stays so. It takes over the runs in trials whose cases are still known; nothing writes trials any more.

CREATE TABLE IF NOT EXISTS looks
(
    look_id    String COMMENT 'hash of the runs, the options and what there was to see: the same look again is the same row',
    looked_at  DateTime64(3, 'UTC') COMMENT 'the first time',
    runs       Array(String) COMMENT 'run A and run B of a comparison; else the one run',
    label      String COMMENT 'what the candidates change, in words',
    candidates Array(String) COMMENT 'hashes of the changed prompts and models',
    began_at   DateTime64(3, 'UTC') COMMENT 'when the latest of the candidates'' runs began',
    options    String COMMENT 'JSON: the command and what it was asked',
    cases      Array(UInt64) COMMENT 'cityHash64 of the ids of the cases that all of its runs replayed'
)
ENGINE = ReplacingMergeTree
ORDER BY look_id
SETTINGS non_replicated_deduplication_window = 10000;

INSERT INTO looks (look_id, looked_at, runs, label, candidates, began_at, options, cases)
SELECT t.run_id, t.started_at, [t.run_id], t.label, [t.candidate], t.started_at, '', c.cases
FROM (SELECT * FROM trials FINAL WHERE candidate != '') AS t
INNER JOIN (SELECT run_id, groupUniqArray(cityHash64(case_id)) AS cases FROM run_cases GROUP BY run_id) AS c
    ON c.run_id = t.run_id;
