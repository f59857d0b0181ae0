-- What other machines have learned of functions, as a collector has told it: sums of all machines, this one too. Times are in ms since 1970.

-- A build of which something was told.
CREATE TABLE hinted (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    build TEXT NOT NULL,
    -- By what the collector knows whether there is something newer (ETag).
    tag TEXT NOT NULL,
    told BIGINT NOT NULL,
    UNIQUE (name, build)
);

-- As `function`; what was seen is as much as was left of it when it was told.
CREATE TABLE hint (
    module BIGINT NOT NULL,
    at BIGINT NOT NULL,
    fingerprint BIGINT NOT NULL,
    seen_in BLOB NOT NULL,
    seen BIGINT NOT NULL,
    PRIMARY KEY (module, at)
);
