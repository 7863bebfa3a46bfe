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
groupArrayArray(o.judged.6) AS priced,
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
    SELECT case_id, before AS story, duplicate, 1 AS hops FROM links
    UNION ALL
    SELECT c.case_id, l.before, c.duplicate, c.hops + 1 FROM chains AS c INNER JOIN links AS l ON l.case_id = c.story WHERE c.hops < 100
),
-- Live cases, each once, by the journal's append time. Who names no group may link to anybody's pages: only this one is its own.
told AS
(
    SELECT n.case_id AS case_id, n.source AS source, n.language AS language, if(s.story = '', n.case_id, s.story) AS story,
           if(e.news_group = '', n.source, e.news_group) AS owner, e.appended_at AS opened_at,
           if(e.live, n.received_at, NULL) AS received_at, e.looked_before AS looked_before, n.published_at AS published_at,
           s.duplicate AS duplicate, e.edits AS edits,
           groupUniqArray(cutToFirstSignificantSubdomain(n.url)) OVER (PARTITION BY if(e.news_group = '', n.case_id, e.news_group)) AS own,
           max(n.case_id = story) OVER (PARTITION BY story) AS inside,
           groupArrayIf((owner, received_at, looked_before), received_at IS NOT NULL) OVER (PARTITION BY story) AS tellings
    FROM (SELECT case_id, source, language, url, received_at, published_at FROM news FINAL WHERE run_id = 'live') AS n
    INNER JOIN
    (
        SELECT case_id, news_group, appended_at, live, looked_before, edits FROM events FINAL
        WHERE run_id = 'live' AND event_type = 'newsproof.event_received' AND appended_at > now64(3) - INTERVAL 90 DAY
    ) AS e ON e.case_id = n.case_id
    LEFT JOIN (SELECT case_id, argMax(story, hops) AS story, any(duplicate) AS duplicate FROM chains GROUP BY case_id) AS s
        ON s.case_id = n.case_id
),
judgements AS
(
    SELECT s.case_id AS case_id, s.verdict AS verdict, s.withdrawn_as != '' AS withdrawn,
           arrayMap(e -> cutToFirstSignificantSubdomain(e.url), arrayFilter(e -> e.stance = 'supports', s.evidence)) AS supported_by,
           o.hits AS hits
    FROM (SELECT case_id, verdict, withdrawn_as, evidence FROM v_judgements WHERE run_id = 'live') AS s
    LEFT JOIN
    (
        SELECT case_id, groupArray((horizon_s, assumeNotNull(hit))) AS hits
        FROM v_judged_outcomes WHERE run_id = 'live' AND standing = 'counted' GROUP BY case_id
    ) AS o ON o.case_id = s.case_id
),
-- A story once a source and language, by its first case; of a day those with the smallest ids.
counted AS
(
    SELECT t.source AS source, t.language AS language, t.story AS story,
           argMin(t.owner, (t.opened_at, t.case_id)) AS owner,
           min((t.opened_at, t.case_id)) AS place,
           argMin(t.duplicate, (t.opened_at, t.case_id)) AS copied,
           max(t.edits) AS edited,
           argMinIf((t.received_at, t.looked_before, t.published_at), (t.received_at, t.case_id), t.received_at IS NOT NULL) AS heard,
           argMinIf((s.case_id, s.verdict, s.withdrawn, s.supported_by, t.own, s.hits), (t.opened_at, t.case_id), s.case_id != '') AS judged,
           any(t.tellings) AS tellings
    FROM told AS t
    LEFT JOIN judgements AS s ON s.case_id = t.case_id
    WHERE t.inside
    GROUP BY source, language, story
    ORDER BY story
    LIMIT 20 BY source, language, toDate(place.1)
),
-- Against the tellings of other owners: one was received before another only when it was before the look that did not show the
-- other yet.
ordered AS
(
    SELECT *, if(heard.1 IS NULL, [], arrayFilter(o -> o.1 != owner, tellings)) AS others,
           notEmpty(others) AS is_compared,
           is_compared AND arrayAll(o -> ifNull(heard.1 < o.3, false), others) AS is_first,
           NOT is_first AND arrayExists(o -> ifNull(o.2 < heard.2, false), others) AS is_late,
           if(is_first OR is_late, dateDiff('millisecond', heard.1, arrayMin(arrayMap(o -> o.2, others))) / 1000, 0) AS ahead_s
    FROM counted
)
SELECT source, language, argMax(o.owner, o.place) AS owner,
       count() AS stories, stories >= 20 AS rated,
       countIf(is_compared) AS compared, countIf(is_first) AS first, countIf(is_compared AND NOT is_first AND NOT is_late) AS tied,
       share(first, compared) AS first_share, low(first, compared) AS first_low, high(first, compared) AS first_high,
       if(compared = 0, NULL, quantileExactInclusiveIf(0.5)(ahead_s, is_compared)) AS lead_s,
       countIf(copied) AS copies,
       share(copies, stories) AS copies_share, low(copies, stories) AS copies_low, high(copies, stories) AS copies_high,
       countIf(judged.1 != '') AS signals,
       countIf(judged.2 NOT IN ('', 'unchecked')) AS searched,
       countIf(judged.2 = 'confirmed' AND NOT hasAll(judged.5, judged.4)) AS confirmed,
       share(confirmed, searched) AS confirmed_share, low(confirmed, searched) AS confirmed_low, high(confirmed, searched) AS confirmed_high,
       countIf(judged.2 = 'refuted') AS refuted,
       share(refuted, searched) AS refuted_share, low(refuted, searched) AS refuted_low, high(refuted, searched) AS refuted_high,
       countIf(judged.3) AS retracted, (1 + retracted) / (20 + signals) AS retracted_share,
       countIf(edited) AS edited_stories,
       if(countIf(heard.1 IS NOT NULL) = 0, NULL,
          quantileExactInclusiveIf(0.5)(dateDiff('millisecond', heard.3, heard.1) / 1000, heard.1 IS NOT NULL)) AS lag_s,
       arrayMap(h -> (h, arrayCount(p -> p.1 = h, priced), arraySum(p -> if(p.1 = h, p.2, 0), priced)),
                arraySort(arrayDistinct(arrayMap(p -> p.1, priced)))) AS hits
FROM ordered AS o
GROUP BY source, language;
