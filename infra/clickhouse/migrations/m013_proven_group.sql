-- Who owns a source is believed of the listener alone: anybody who may publish could name another's group.
ALTER TABLE events MODIFY COLUMN IF EXISTS news_group LowCardinality(String)
    DEFAULT if(event_type = 'newsproof.event_received' AND JSONExtractBool(payload, 'authenticated'),
               JSONExtractString(payload, 'news', 'extra', 'group'), '');
