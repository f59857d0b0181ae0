-- Which names of races and issues count as others: a name was merged into another (`done` is `merged`), or was split from it again (`split`); the last word on a name counts.
-- Sightings and reports keep the names by which they were caught. Numbers count these and those of `triage` together.

CREATE TABLE alias (
    number BIGINT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    done TEXT NOT NULL,
    target TEXT NOT NULL,
    reason TEXT NOT NULL,
    who TEXT NOT NULL,
    said BIGINT NOT NULL
);

CREATE INDEX alias_by_name ON alias (name);
