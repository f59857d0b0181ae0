-- What a collector has not taken yet. An item is a race that was caught, how often one was caught again, or a program that was watched. A message is items that have got a number, under which they
-- are sent until they are taken. Times are milliseconds since 1970.

-- One row.
CREATE TABLE state (
    -- Random: with the number of a message it names that message once and for all.
    sender TEXT NOT NULL,
    -- The numbers of the next item, and of the next message.
    item BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    -- Of items and messages.
    bytes BIGINT NOT NULL,
    -- What was dropped since the file was made, by its class.
    evidence BIGINT NOT NULL,
    repeats BIGINT NOT NULL,
    sightings BIGINT NOT NULL,
    -- Messages that were taken, and that never will be.
    taken BIGINT NOT NULL,
    refused BIGINT NOT NULL
);
INSERT INTO state (sender, item, sequence, bytes, evidence, repeats, sightings, taken, refused)
    VALUES (lower(hex(randomblob(16))), 1, 1, 0, 0, 0, 0, 0, 0);

CREATE TABLE item (
    id BIGINT NOT NULL PRIMARY KEY,
    -- Who has the same is the same, or is added to it.
    name TEXT NOT NULL UNIQUE,
    -- What is dropped first has the lowest (`Class` of outbox/item.rs).
    class BIGINT NOT NULL,
    -- How much more is lost when it is dropped.
    weight BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    record TEXT NOT NULL
);
CREATE INDEX item_by_class ON item (class, id);

-- At most one, whatever becomes of it.
CREATE TABLE message (
    sequence BIGINT NOT NULL PRIMARY KEY,
    body BLOB NOT NULL
);

-- Messages that the collector will never take, for whoever looks after it.
CREATE TABLE refused (
    sequence BIGINT NOT NULL PRIMARY KEY,
    refused BIGINT NOT NULL,
    why TEXT NOT NULL,
    body BLOB NOT NULL
);

-- What the collector was told of before, by digests: races of builds, and builds.
CREATE TABLE known (
    name TEXT NOT NULL PRIMARY KEY,
    -- The number of the item.
    item BIGINT NOT NULL
);
CREATE INDEX known_by_item ON known (item);

-- Who has handed something over, and what was taken last of it: it may be handed over again.
CREATE TABLE giver (
    name TEXT NOT NULL PRIMARY KEY,
    sequence BIGINT NOT NULL,
    item BIGINT NOT NULL
);
