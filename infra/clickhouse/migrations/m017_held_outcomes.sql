-- Outcomes of which no signal leaves the sample because it was withdrawn: its order was held until the first price after the
-- withdrawal, or until the horizon if there is none before. A sample without them would hold the claims alone that nobody denied.

-- As v_judged_outcomes, and beside it:
-- held_until, held_return: of an order that counts or did not move, as there; of a withdrawn one, until it was withdrawn. Null:
-- no order, or its price says nothing of what was said. held_hit: null also where the return is exactly zero.
-- moved: at the horizon, withdrawn or not, acted on or not, the price had moved over 0.001 (10 bp) the way that was said: what
-- confidence_calibrated is the probability of, at the signal's own horizon. Null: nothing was said, or the price says nothing.
CREATE OR REPLACE VIEW v_held_outcomes AS
SELECT j.run_id AS run_id, j.case_id AS case_id, j.repeat AS repeat, j.story_id AS story_id, j.horizon_s AS horizon_s,
       j.language AS language, j.news_source AS news_source, j.event_type AS event_type, j.asset AS asset,
       j.action AS action, j.direction AS direction, j.verdict AS verdict,
       j.preliminary_confidence AS preliminary_confidence, j.confidence AS confidence, j.knowable_at AS knowable_at,
       j.entry_at AS entry_at, j.exit_at AS exit_at, j.market_return AS market_return, j.price_source AS price_source,
       j.outcome_asset AS outcome_asset, j.has_outcome AS has_outcome, j.acted AS acted, j.own_horizon AS own_horizon,
       j.live AS live, j.emitted_at AS emitted_at, j.said AS said, j.side AS side, j.price_standing AS price_standing,
       j.standing AS standing, j.hit AS hit, j.directed_return AS directed_return, j.depeg AS depeg,
       j.depeg_hit AS depeg_hit,
       s.confidence_calibrated AS confidence_calibrated,
       j.standing = 'withdrawn' AS withdrawn,
       multiIf(j.standing IN ('counted', 'unmoved'), j.exit_at,
               withdrawn AND j.depeg IS NULL AND b.case_id != '', b.until_at,
               withdrawn AND j.depeg IS NULL, j.exit_at,
               NULL) AS held_until,
       multiIf(j.standing IN ('counted', 'unmoved'), j.directed_return,
               withdrawn AND j.depeg IS NULL AND b.case_id != '', b.return_until * j.side,
               withdrawn AND j.depeg IS NULL, j.market_return * j.side,
               NULL) AS held_return,
       if(held_return = 0, NULL, toNullable(toUInt8(held_return > 0))) AS held_hit,
       if(j.said != 0 AND (j.price_standing IN ('counted', 'unmoved') OR (j.price_standing = 'withdrawn' AND j.depeg IS NULL)),
          toNullable(toUInt8(j.market_return * j.said > 0.001)), NULL) AS moved
FROM v_judged_outcomes AS j
LEFT JOIN
(
    SELECT run_id, case_id, tupleElement(argMax(tuple(confidence_calibrated), revision), 1) AS confidence_calibrated
    FROM signals FINAL WHERE stage = 'final' GROUP BY run_id, case_id HAVING confidence_calibrated IS NOT NULL
) AS s ON s.run_id = j.run_id AND s.case_id = j.case_id
LEFT JOIN
(
    SELECT o.case_id AS case_id, o.horizon_s AS horizon_s, p.open_at AS until_at, p.open / o.entry_price - 1 AS return_until
    FROM
    (
        SELECT f.case_id AS case_id, f.horizon_s AS horizon_s, f.symbol AS symbol, f.venue AS venue, f.entry_price AS entry_price,
               f.exit_at AS exit_at, greatest(w.withdrawn_at, f.entry_at + toIntervalMillisecond(1)) AS from_at
        FROM (SELECT case_id, horizon_s, symbol, venue, entry_at, entry_price, exit_at FROM outcomes FINAL) AS f
        INNER JOIN (SELECT case_id, withdrawn_at FROM v_withdrawals WHERE run_id = 'live') AS w ON w.case_id = f.case_id
        WHERE w.withdrawn_at <= f.exit_at
    ) AS o
    ASOF JOIN
    (
        SELECT symbol, venue, open_at, argMax(open, version) AS open FROM bars
        WHERE version IN (SELECT version FROM price_imports FINAL WHERE NOT removed)
          AND symbol IN (SELECT symbol FROM outcomes WHERE case_id IN (SELECT case_id FROM v_withdrawals WHERE run_id = 'live'))
        GROUP BY symbol, venue, open_at
    ) AS p ON p.symbol = o.symbol AND p.venue = o.venue AND p.open_at >= o.from_at
    WHERE p.open_at <= o.exit_at
) AS b ON b.case_id = j.case_id AND b.horizon_s = j.horizon_s;

-- The hit rate of all orders, without the withdrawn ones (v_judged_outcomes) and with them.
CREATE OR REPLACE VIEW v_held_hit_rate AS
SELECT run_id, horizon_s,
       countIf(hit IS NOT NULL) AS cases, countIf(hit = 1) AS hits, if(cases = 0, NULL, hits / cases) AS hit_rate,
       countIf(held_hit IS NOT NULL AND withdrawn) AS withdrawn_cases, countIf(held_hit = 1 AND withdrawn) AS withdrawn_hits,
       countIf(held_hit IS NOT NULL) AS held_cases, countIf(held_hit = 1) AS held_hits,
       if(held_cases = 0, NULL, held_hits / held_cases) AS held_hit_rate,
       if(held_cases = 0, NULL, avg(held_return)) AS mean_held_return
FROM v_held_outcomes
WHERE acted
GROUP BY run_id, horizon_s
ORDER BY run_id, horizon_s;
