-- In which control group a race was caught: that of a service, or of a pod; empty where it is not known, and for the sessions of people.

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
);
INSERT INTO sighting (race, build, host, cgroup, container, hour, times)
    SELECT race, build, host, '', container, hour, times FROM sighting_before;
DROP TABLE sighting_before;
