-- What the calibration map that a case pinned says of its signal (schemas/calibration.py). Rows from before it, and signals without
-- a fitted curve, have nulls and an empty id.
ALTER TABLE signals ADD COLUMN IF NOT EXISTS calibration_id String CODEC(ZSTD(1)) AFTER confidence_calibrated;
ALTER TABLE signals ADD COLUMN IF NOT EXISTS calibrated_low Nullable(Float64) AFTER calibration_id;
ALTER TABLE signals ADD COLUMN IF NOT EXISTS calibrated_high Nullable(Float64) AFTER calibrated_low;
ALTER TABLE signals ADD COLUMN IF NOT EXISTS calibration_stories Nullable(UInt32) AFTER calibrated_high;
ALTER TABLE signals ADD COLUMN IF NOT EXISTS p_true Nullable(Float64) AFTER calibration_stories;

-- As in m006 and m007, made again: a view of all columns has those of its day.
CREATE OR REPLACE VIEW v_signals AS
SELECT * EXCEPT (status) FROM signals FINAL
ORDER BY run_id, signal_id, revision DESC
LIMIT 1 BY run_id, signal_id;

CREATE OR REPLACE VIEW v_judgements AS
SELECT * EXCEPT (status, first_knowable_at, first_live, withdrawn_as, withdrawn_at)
         REPLACE (ifNull(first_knowable_at, knowable_at) AS knowable_at),
       ifNull(first_live, false) AS live,
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
    SELECT run_id, case_id, argMin(knowable_at, journal_offset) AS first_knowable_at, argMin(live, journal_offset) AS first_live
    FROM events WHERE event_type = 'newsproof.event_received' GROUP BY run_id, case_id
) AS o USING (run_id, case_id)
LEFT JOIN v_withdrawals AS w USING (run_id, case_id);
