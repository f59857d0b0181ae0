-- Summaries, from which lists and pages are made: none of them adds up sightings. Kept with each sighting, and with what is said and merged (store/summary.rs). Those of races
-- that count as another one are with that one. Days are counted from 1970, as hours are.

-- The races and issues as which they count: themselves, where they are not merged into others.
ALTER TABLE race ADD COLUMN counts_as TEXT NOT NULL DEFAULT '';
ALTER TABLE race ADD COLUMN issue_as TEXT NOT NULL DEFAULT '';
-- When it, or one that counts as it, was caught first and last.
ALTER TABLE race ADD COLUMN first_caught BIGINT NOT NULL DEFAULT 0;
ALTER TABLE race ADD COLUMN last_caught BIGINT NOT NULL DEFAULT 0;
ALTER TABLE race ADD COLUMN times BIGINT NOT NULL DEFAULT 0;
ALTER TABLE race ADD COLUMN builds BIGINT NOT NULL DEFAULT 0;
-- Those that are known.
ALTER TABLE race ADD COLUMN hosts BIGINT NOT NULL DEFAULT 0;
-- The number of the last word on it or its issue; 0 where nothing was said.
ALTER TABLE race ADD COLUMN triage BIGINT NOT NULL DEFAULT 0;
-- Functions, variable and places, in small letters.
ALTER TABLE race ADD COLUMN search_text TEXT NOT NULL DEFAULT '';
-- 1 where all these, and the tables below, are to be made anew (store/catch_up.rs): so it is with all that was there.
ALTER TABLE race ADD COLUMN behind BIGINT NOT NULL DEFAULT 1;

CREATE INDEX race_by_last_caught ON race (last_caught DESC, id);
CREATE INDEX race_by_counts_as ON race (counts_as);
CREATE INDEX race_by_issue_as ON race (issue_as);
CREATE INDEX race_merged ON race (id) WHERE counts_as <> id;
CREATE INDEX race_by_triage ON race (triage);
CREATE INDEX race_behind ON race (id) WHERE behind <> 0;

CREATE TABLE race_day (
    race TEXT NOT NULL REFERENCES race (id) ON DELETE CASCADE,
    day BIGINT NOT NULL,
    build TEXT NOT NULL,
    times BIGINT NOT NULL,
    PRIMARY KEY (race, day, build)
);

CREATE TABLE race_build (
    race TEXT NOT NULL REFERENCES race (id) ON DELETE CASCADE,
    build TEXT NOT NULL,
    first_hour BIGINT NOT NULL,
    last_hour BIGINT NOT NULL,
    times BIGINT NOT NULL,
    PRIMARY KEY (race, build)
);

CREATE INDEX race_by_build ON race_build (build, race);

CREATE TABLE race_host (
    race TEXT NOT NULL REFERENCES race (id) ON DELETE CASCADE,
    host TEXT NOT NULL,
    first_hour BIGINT NOT NULL,
    last_hour BIGINT NOT NULL,
    times BIGINT NOT NULL,
    PRIMARY KEY (race, host)
);

CREATE INDEX race_by_host ON race_host (host, race);

-- Most records of a race that is caught often are digests only.
CREATE INDEX evidence_kept ON evidence (race, caught DESC) WHERE record <> '';
