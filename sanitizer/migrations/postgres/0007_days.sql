-- Sightings are in partitions, by ranges of hours: a day each, and thirty of those each when they are old (`store/engine/postgres/days.rs`). What was there is in the partition of what has none of its own, as is
-- whatever was seen by a clock that is wrong, and moves to others from there. It is not copied: its key and what it refers to are those of the whole.

ALTER TABLE sighting RENAME TO sighting_other;
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
CREATE INDEX sighting_other_by_hour ON sighting_other (hour);
ALTER TABLE sighting ATTACH PARTITION sighting_other DEFAULT;
