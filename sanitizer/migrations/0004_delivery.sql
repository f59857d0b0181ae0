-- What has come from hosts (`gwp-race races serve --ingest`). A sender is what a host has kept its messages in; it numbers them from 1.

CREATE TABLE sender (
    id TEXT NOT NULL PRIMARY KEY,
    -- The machine, as its last message that named one has it.
    host TEXT NOT NULL,
    first_seen BIGINT NOT NULL,
    last_seen BIGINT NOT NULL,
    -- The highest number that has come; those below it have come as well, but for those of gap.
    highest BIGINT NOT NULL,
    -- Messages that were taken.
    messages BIGINT NOT NULL,
    -- What the sender has dropped since it began, by what it says.
    lost_evidence BIGINT NOT NULL,
    lost_repeats BIGINT NOT NULL,
    lost_sightings BIGINT NOT NULL,
    -- Times that were counted of races that were not here, and so could not be put down.
    passed_over BIGINT NOT NULL
);

-- Numbers that have not come: from low to high, both included. Most are of messages that were dropped.
CREATE TABLE gap (
    sender TEXT NOT NULL REFERENCES sender (id),
    low BIGINT NOT NULL,
    high BIGINT NOT NULL,
    PRIMARY KEY (sender, low)
);
