-- Where sightings and reports are kept beyond what one PostgreSQL holds (docs/fleet.md, "Scale, on paper"). Races, issues, builds and what people say of them are few and change: they stay in PostgreSQL.
-- Nothing of gwp-race writes here yet.

-- What was caught again, as it came: each item of a message once, however often the message comes, since it is named by who has sent it, its number, and the item's place in it.
CREATE TABLE sighting_item (
    sender FixedString(32),
    sequence UInt64,
    item UInt32,
    race String,
    build LowCardinality(String),
    host LowCardinality(String),
    cgroup String,
    container String,
    hour DateTime('UTC'),
    times UInt64
) ENGINE = ReplacingMergeTree
PARTITION BY toDate(hour)
ORDER BY (sender, sequence, item)
TTL hour + INTERVAL 8 DAY;

-- Whole days, of which the last hour is kept. To sum up a day again replaces what was there.
CREATE TABLE sighting_day (
    day Date,
    race String,
    build LowCardinality(String),
    host LowCardinality(String),
    cgroup String,
    container String,
    last_hour DateTime('UTC'),
    times UInt64,
    summed DateTime64(3, 'UTC') DEFAULT now64(3)
) ENGINE = ReplacingMergeTree(summed)
PARTITION BY toYYYYMM(day)
ORDER BY (race, build, day, host, cgroup, container)
TTL day + INTERVAL 400 DAY;

-- Whole records; readers take the first 20 of a race and build (LIMIT 20 BY race, build).
CREATE TABLE evidence (
    digest FixedString(64),
    race String,
    build LowCardinality(String),
    caught DateTime64(3, 'UTC'),
    record String CODEC(ZSTD(3))
) ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(caught)
ORDER BY (race, build, digest)
TTL toDateTime(caught) + INTERVAL 400 DAY;

-- What a page asks of both: the hours of the last week, and the days before that.
CREATE VIEW sighting AS
    SELECT race, build, host, cgroup, container, hour, times FROM sighting_item FINAL WHERE toDate(hour) > today() - 7
    UNION ALL
    SELECT race, build, host, cgroup, container, last_hour AS hour, times FROM sighting_day FINAL WHERE day <= today() - 7;
