-- What hosts have learned of functions, summed up for all of them. It says where to look first, and is no evidence of anything. Times are milliseconds since 1970.

-- A build of a program or library.
CREATE TABLE learned_build (
    -- The beginning of a digest of name and build (`store/learned`).
    id BIGINT NOT NULL PRIMARY KEY,
    -- The name of its file, without folders.
    name TEXT NOT NULL,
    -- The build id, in hexadecimal digits.
    build TEXT NOT NULL,
    -- What its functions take.
    bytes BIGINT NOT NULL,
    -- When something was told of it last.
    told BIGINT NOT NULL
);
CREATE INDEX learned_build_by_name ON learned_build (name, told);
CREATE INDEX learned_build_by_age ON learned_build (told);

CREATE TABLE learned (
    build BIGINT NOT NULL,
    -- From the beginning of the module, bytes.
    place BIGINT NOT NULL,
    -- Of its code.
    fingerprint BIGINT NOT NULL,
    -- What was seen at its sites, as much as was left of it at that time, and races of them (`KnownFunction::seen_in` of learned/function.rs).
    seen_in BYTEA NOT NULL,
    seen BIGINT NOT NULL,
    PRIMARY KEY (build, place)
);
