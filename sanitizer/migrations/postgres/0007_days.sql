-- Sightings are in partitions, by ranges of hours: a day each, and thirty of those each when they are old (`store/engine/postgres/days.rs`). Whatever was seen by a clock that is wrong is in the partition of
-- what has none of its own. What was there is one partition, for all the time until tomorrow, which thirty days at a time leave when they are old. It is read once, to see that it has nothing of later, and not
-- copied: its key and what it refers to are those of the whole.

SET LOCAL statement_timeout = 0;
ALTER TABLE sighting RENAME TO sighting_before;
CREATE TABLE sighting (
    race TEXT NOT NULL REFERENCES race (id),
    build TEXT NOT NULL REFERENCES build (id),
    host TEXT NOT NULL,
    cgroup TEXT NOT NULL,
    container TEXT NOT NULL,
    hour BIGINT NOT NULL,
    times BIGINT NOT NULL,
    PRIMARY KEY (race, build, host, cgroup, container, hour)
) PARTITION BY RANGE (hour);
CREATE TABLE sighting_other PARTITION OF sighting DEFAULT;
CREATE INDEX sighting_other_by_hour ON sighting_other (hour);
DO $$
DECLARE
    tomorrow BIGINT := (floor(extract(epoch FROM now()) / 86400)::BIGINT + 1) * 24;
    attach TEXT := format('ALTER TABLE sighting ATTACH PARTITION sighting_before FOR VALUES FROM (MINVALUE) TO (%s)', tomorrow);
BEGIN
    IF NOT EXISTS (SELECT 1 FROM sighting_before) THEN
        DROP TABLE sighting_before;
        RETURN;
    END IF;
    BEGIN
        EXECUTE attach;
    EXCEPTION WHEN check_violation THEN
        -- Clocks that are ahead.
        WITH later AS (DELETE FROM sighting_before WHERE hour >= tomorrow RETURNING race, build, host, cgroup, container, hour, times)
            INSERT INTO sighting (race, build, host, cgroup, container, hour, times)
            SELECT race, build, host, cgroup, container, hour, times FROM later;
        EXECUTE attach;
    END;
END
$$;
