-- How much there is is told by indexes alone, so that nobody need read records to know.
ALTER TABLE event ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0;
UPDATE event SET bytes = length(CAST(record AS BLOB));

CREATE INDEX item_by_age ON item (put);
CREATE INDEX event_by_age ON event (refused, put, bytes);
