-- By which code a run's cases were recorded, and what its own code sends to models: a difference between runs of different
-- code is not one of prompts alone. Rows from before have neither, which is unknown and never taken for the same.

ALTER TABLE runs ADD COLUMN IF NOT EXISTS recorded_code Array(LowCardinality(String))
    COMMENT 'code versions that recorded the replayed cases; empty: not kept';
ALTER TABLE runs ADD COLUMN IF NOT EXISTS declarations String CODEC(ZSTD(3))
    COMMENT 'JSON: step → name → hash of each function declaration and reply schema that it sends; empty: not kept';
ALTER TABLE runs ADD COLUMN IF NOT EXISTS questions String CODEC(ZSTD(3))
    COMMENT 'JSON: step → asked, otherwise: questions with nothing changed, and those of them that are not as recorded; empty: the same code';
ALTER TABLE runs ADD COLUMN IF NOT EXISTS looked_at UInt32 COMMENT 'cases that questions was counted over';
ALTER TABLE runs ADD COLUMN IF NOT EXISTS baseline UInt8
    COMMENT '1: finished, and neither a prompt nor a model was changed (A/A)';
