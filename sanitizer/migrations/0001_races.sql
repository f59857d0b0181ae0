-- The store of races. Times are milliseconds since 1970-01-01 in UTC, hours are counted from then. Names of races, issues and pairs are those
-- of the JSON form (`identity`). Written so that PostgreSQL takes it, too.

-- A pair of functions.
CREATE TABLE issue (
    id TEXT NOT NULL PRIMARY KEY,
    functions TEXT NOT NULL
);

CREATE TABLE race (
    id TEXT NOT NULL PRIMARY KEY,
    issue TEXT NOT NULL REFERENCES issue (id),
    variable TEXT NOT NULL,
    places TEXT NOT NULL,
    first_seen BIGINT NOT NULL,
    last_seen BIGINT NOT NULL
);

CREATE INDEX race_by_issue ON race (issue);

-- The instructions of a race, in each build others.
CREATE TABLE pair (
    id TEXT NOT NULL,
    race TEXT NOT NULL REFERENCES race (id),
    PRIMARY KEY (id, race)
);

-- Programs that were watched: the build id of the executable, or `exe:` and its path where it has none.
CREATE TABLE build (
    id TEXT NOT NULL PRIMARY KEY,
    exe TEXT NOT NULL,
    first_seen BIGINT NOT NULL,
    last_seen BIGINT NOT NULL
);

-- How often a race was caught; host and container are empty where they are not known.
CREATE TABLE sighting (
    race TEXT NOT NULL REFERENCES race (id),
    build TEXT NOT NULL REFERENCES build (id),
    host TEXT NOT NULL,
    container TEXT NOT NULL,
    hour BIGINT NOT NULL,
    times BIGINT NOT NULL,
    PRIMARY KEY (race, build, host, container, hour)
);

-- Whole records, as lines of the JSON form; a record is named by its SHA-256.
CREATE TABLE evidence (
    digest TEXT NOT NULL PRIMARY KEY,
    race TEXT NOT NULL REFERENCES race (id),
    build TEXT NOT NULL REFERENCES build (id),
    caught BIGINT NOT NULL,
    record TEXT NOT NULL
);

CREATE INDEX evidence_by_race ON evidence (race, build);

-- What people have said of a race or an issue; the last word counts.
CREATE TABLE triage (
    number BIGINT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    owner TEXT NOT NULL,
    expires BIGINT,
    who TEXT NOT NULL,
    said BIGINT NOT NULL
);

CREATE INDEX triage_by_name ON triage (name);
