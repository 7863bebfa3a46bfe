-- Reputation of sources: the figures of streams/reputation/fold.py, of the last 90 days, and the hit rates that prices give.

-- Taken when the row comes in, as knowable_at is: bodies are emptied after 90 days.
ALTER TABLE events ADD COLUMN IF NOT EXISTS follows String
    DEFAULT multiIf(event_type = 'newsproof.case_dropped', JSONExtractString(payload, 'duplicate_of'),
                    event_type != 'newsproof.event_received', '',
                    JSONExtractString(payload, 'edits') != '', JSONExtractString(payload, 'edits'),
                    JSONExtractString(payload, 'retries'))
    COMMENT 'the case whose story this one belongs to: what it repeats, edits or retries; empty: none';
ALTER TABLE events ADD COLUMN IF NOT EXISTS edits Bool
    DEFAULT event_type = 'newsproof.event_received' AND JSONExtractString(payload, 'edits') != ''
    COMMENT 'of event_received alone: the item was news before, with another text';
ALTER TABLE events ADD COLUMN IF NOT EXISTS news_group LowCardinality(String)
    DEFAULT if(event_type = 'newsproof.event_received', JSONExtractString(payload, 'news', 'extra', 'group'), '')
    COMMENT 'of event_received alone: who owns the source, as its listener says; empty: itself';
ALTER TABLE events ADD COLUMN IF NOT EXISTS looked_before Nullable(DateTime64(3, 'UTC'))
    DEFAULT if(event_type = 'newsproof.event_received',
               parseDateTime64BestEffortOrNull(JSONExtractString(payload, 'news', 'extra', 'previous_look_at'), 3, 'UTC'), NULL)
    COMMENT 'of event_received alone: when its source was looked at and did not show the item yet; null: not known';

CREATE OR REPLACE VIEW v_source_reputation AS
WITH RECURSIVE
-- Wilson's interval of 95 %, and nothing known of nothing.
1.959963984540054 AS z,
(k, n) -> if(n = 0, NULL, k / n) AS share,
(k, n) -> if(n = 0, 0., greatest(0., (k / n + z * z / (2 * n) - z * sqrt(k / n * (1 - k / n) / n + z * z / (4 * n * n))) / (1 + z * z / n))) AS low,
(k, n) -> if(n = 0, 1., least(1., (k / n + z * z / (2 * n) + z * sqrt(k / n * (1 - k / n) / n + z * z / (4 * n * n))) / (1 + z * z / n))) AS high,
-- Live cases, each once, by the journal's append time.
cases AS
(
    SELECT n.case_id AS case_id, n.source AS source, n.language AS language, e.news_group AS news_group,
           if(e.news_group = '', n.source, e.news_group) AS owner, cutToFirstSignificantSubdomain(n.url) AS domain,
           e.appended_at AS opened_at, if(e.live, n.received_at, NULL) AS received_at, e.looked_before AS looked_before,
           n.published_at AS published_at, e.edits AS edits
    FROM (SELECT case_id, source, language, url, received_at, published_at FROM news FINAL WHERE run_id = 'live') AS n
    INNER JOIN
    (
        SELECT case_id, news_group, appended_at, live, looked_before, edits FROM events FINAL
        WHERE run_id = 'live' AND event_type = 'newsproof.event_received' AND appended_at > now64(3) - INTERVAL 90 DAY
    ) AS e ON e.case_id = n.case_id
),
links AS
(
    SELECT case_id, argMax(follows, dropped) AS before, max(dropped) AS duplicate
    FROM
    (
        SELECT case_id, follows, event_type = 'newsproof.case_dropped' AS dropped FROM events FINAL
        WHERE run_id = 'live' AND event_type IN ('newsproof.event_received', 'newsproof.case_dropped') AND follows != ''
    )
    GROUP BY case_id
),
chains AS
(
    SELECT case_id, case_id AS story, 0 AS hops FROM cases
    UNION ALL
    SELECT c.case_id, l.before, c.hops + 1 FROM chains AS c INNER JOIN links AS l ON l.case_id = c.story WHERE c.hops < 100
),
told AS
(
    SELECT c.case_id AS case_id, c.source AS source, c.language AS language, c.news_group AS news_group, c.owner AS owner,
           c.domain AS domain, c.opened_at AS opened_at, c.received_at AS received_at, c.looked_before AS looked_before,
           c.published_at AS published_at, c.edits AS edits, s.story AS story, l.duplicate = 1 AS duplicate
    FROM cases AS c
    INNER JOIN (SELECT case_id, argMax(story, hops) AS story FROM chains GROUP BY case_id) AS s ON s.case_id = c.case_id
    LEFT JOIN links AS l ON l.case_id = c.case_id
    WHERE s.story IN (SELECT case_id FROM cases)
),
signals_of AS
(
    SELECT s.case_id AS case_id, s.verdict AS verdict, s.withdrawn_as != '' AS withdrawn,
           arrayMap(e -> cutToFirstSignificantSubdomain(e.url), arrayFilter(e -> e.stance = 'supports', s.evidence)) AS supported_by
    FROM v_judgements AS s WHERE s.run_id = 'live'
),
domains AS (SELECT news_group, groupUniqArray(domain) AS domains FROM cases WHERE news_group != '' GROUP BY news_group),
-- A story once a source and language, by its first case; of a day those with the smallest ids.
counted AS
(
    SELECT t.source AS source, t.language AS language, t.story AS story,
           argMin(t.owner, (t.opened_at, t.case_id)) AS owner,
           min((t.opened_at, t.case_id)) AS place,
           argMin(t.duplicate, (t.opened_at, t.case_id)) AS copied,
           max(t.edits) AS edited,
           argMinIf((t.received_at, t.looked_before, t.published_at), (t.received_at, t.case_id), t.received_at IS NOT NULL) AS heard,
           argMinIf((s.case_id, s.verdict, s.withdrawn, s.supported_by, if(t.news_group = '', [t.domain], d.domains)),
                    (t.opened_at, t.case_id), s.case_id != '') AS judged
    FROM told AS t
    LEFT JOIN signals_of AS s ON s.case_id = t.case_id
    LEFT JOIN domains AS d ON d.news_group = t.news_group
    GROUP BY source, language, story
    ORDER BY story
    LIMIT 20 BY source, language, toDate(place.1)
),
-- Against the tellings of other owners: one was received before another only when it was before the look that did not show the
-- other yet.
ordered AS
(
    SELECT c.source AS source, c.language AS language, c.story AS story,
           countIf(ifNull(c.heard.1 < o.looked_before, false)) = count() AS is_first,
           NOT is_first AND countIf(ifNull(o.received_at < c.heard.2, false)) > 0 AS is_late,
           if(is_first OR is_late, dateDiff('millisecond', any(c.heard.1), min(o.received_at)) / 1000, 0) AS lead_s
    FROM counted AS c
    INNER JOIN told AS o ON o.story = c.story
    WHERE o.owner != c.owner AND o.received_at IS NOT NULL AND c.heard.1 IS NOT NULL
    GROUP BY source, language, story
),
hits AS
(
    SELECT source, language, arraySort(groupArray((horizon_s, judged_at, hit))) AS hits
    FROM
    (
        SELECT c.source AS source, c.language AS language, j.horizon_s AS horizon_s, count() AS judged_at, sum(j.hit) AS hit
        FROM counted AS c
        INNER JOIN (SELECT case_id, horizon_s, hit FROM v_judged_outcomes WHERE run_id = 'live' AND standing = 'counted') AS j
            ON j.case_id = c.judged.1
        GROUP BY source, language, horizon_s
    )
    GROUP BY source, language
)
SELECT c.source AS source, c.language AS language, argMax(c.owner, c.place) AS owner,
       count() AS stories, stories >= 20 AS rated,
       countIf(o.story != '') AS compared, countIf(o.is_first) AS first,
       countIf(o.story != '' AND NOT o.is_first AND NOT o.is_late) AS tied,
       share(first, compared) AS first_share, low(first, compared) AS first_low, high(first, compared) AS first_high,
       if(compared = 0, NULL, quantileExactInclusiveIf(0.5)(o.lead_s, o.story != '')) AS lead_s,
       countIf(c.copied) AS copies,
       share(copies, stories) AS copies_share, low(copies, stories) AS copies_low, high(copies, stories) AS copies_high,
       countIf(c.judged.1 != '') AS signals,
       countIf(c.judged.2 NOT IN ('', 'unchecked')) AS searched,
       countIf(c.judged.2 = 'confirmed' AND NOT hasAll(c.judged.5, c.judged.4)) AS confirmed,
       share(confirmed, searched) AS confirmed_share, low(confirmed, searched) AS confirmed_low, high(confirmed, searched) AS confirmed_high,
       countIf(c.judged.2 = 'refuted') AS refuted,
       share(refuted, searched) AS refuted_share, low(refuted, searched) AS refuted_low, high(refuted, searched) AS refuted_high,
       countIf(c.judged.3) AS retracted, (1 + retracted) / (20 + signals) AS retracted_share,
       countIf(c.edited) AS edited,
       if(countIf(c.heard.1 IS NOT NULL) = 0, NULL,
          quantileExactInclusiveIf(0.5)(dateDiff('millisecond', c.heard.3, c.heard.1) / 1000, c.heard.1 IS NOT NULL)) AS lag_s,
       any(h.hits) AS hits
FROM counted AS c
LEFT JOIN ordered AS o ON o.source = c.source AND o.language = c.language AND o.story = c.story
LEFT JOIN hits AS h ON h.source = c.source AND h.language = c.language
GROUP BY c.source, c.language;
