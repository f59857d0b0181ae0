-- Events for a collector of OpenTelemetry, and figures of the agent. Times are milliseconds since 1970.

-- Since when is counted.
ALTER TABLE state ADD COLUMN began BIGINT NOT NULL DEFAULT 0;
UPDATE state SET began = CAST(strftime('%s', 'now') AS INTEGER) * 1000;
-- Races of builds that were handed over as new ones, and how often races were caught.
ALTER TABLE state ADD COLUMN races BIGINT NOT NULL DEFAULT 0;
ALTER TABLE state ADD COLUMN caught BIGINT NOT NULL DEFAULT 0;
-- Events that were taken, that never will be, and that had no room.
ALTER TABLE state ADD COLUMN events_taken BIGINT NOT NULL DEFAULT 0;
ALTER TABLE state ADD COLUMN events_refused BIGINT NOT NULL DEFAULT 0;
ALTER TABLE state ADD COLUMN events_lost BIGINT NOT NULL DEFAULT 0;

-- When something was put in.
ALTER TABLE item ADD COLUMN put BIGINT NOT NULL DEFAULT 0;
ALTER TABLE message ADD COLUMN put BIGINT NOT NULL DEFAULT 0;
UPDATE item SET put = CAST(strftime('%s', 'now') AS INTEGER) * 1000;
UPDATE message SET put = CAST(strftime('%s', 'now') AS INTEGER) * 1000;

-- What a collector of OpenTelemetry was not told yet. Numbers grow, and are those of items.
CREATE TABLE event (
    id BIGINT NOT NULL PRIMARY KEY,
    put BIGINT NOT NULL,
    -- 1: it was refused, and waits for an agent that is started anew, with another configuration maybe.
    refused BIGINT NOT NULL DEFAULT 0,
    -- JSON, as it is sent.
    record TEXT NOT NULL
);
