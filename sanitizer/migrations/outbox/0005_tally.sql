-- How much there is, so that nobody need read all of it to know. Triggers keep it.

-- One row.
CREATE TABLE tally (
    items BIGINT NOT NULL,
    -- Events that were not refused.
    events BIGINT NOT NULL,
    -- Of all events.
    event_bytes BIGINT NOT NULL
);
INSERT INTO tally SELECT
    (SELECT count(*) FROM item),
    (SELECT count(*) FROM event WHERE refused = 0),
    (SELECT coalesce(sum(length(CAST(record AS BLOB))), 0) FROM event);

CREATE TRIGGER item_in AFTER INSERT ON item BEGIN
    UPDATE tally SET items = items + 1;
END;
CREATE TRIGGER item_out AFTER DELETE ON item BEGIN
    UPDATE tally SET items = items - 1;
END;
CREATE TRIGGER event_in AFTER INSERT ON event BEGIN
    UPDATE tally SET events = events + (NEW.refused = 0), event_bytes = event_bytes + length(CAST(NEW.record AS BLOB));
END;
CREATE TRIGGER event_out AFTER DELETE ON event BEGIN
    UPDATE tally SET events = events - (OLD.refused = 0), event_bytes = event_bytes - length(CAST(OLD.record AS BLOB));
END;
CREATE TRIGGER event_otherwise AFTER UPDATE ON event BEGIN
    UPDATE tally SET events = events - (OLD.refused = 0) + (NEW.refused = 0),
        event_bytes = event_bytes - length(CAST(OLD.record AS BLOB)) + length(CAST(NEW.record AS BLOB));
END;

-- The oldest.
CREATE INDEX item_by_age ON item (put);
CREATE INDEX event_by_age ON event (refused, put);
