-- What was learned of the functions of modules, which is no evidence of anything: it says where to look first the next time.

-- A build of a module. Times are in ms since 1970.
CREATE TABLE module (
    id INTEGER PRIMARY KEY,
    -- The name of its file, without folders.
    name TEXT NOT NULL,
    -- The build id, in hexadecimal digits; empty where there is none.
    build TEXT NOT NULL,
    -- 1 where all of its functions are here.
    is_whole BIGINT NOT NULL,
    used BIGINT NOT NULL,
    UNIQUE (name, build)
);

CREATE TABLE function (
    module BIGINT NOT NULL,
    -- From the beginning of the module, bytes.
    at BIGINT NOT NULL,
    -- Of its code (insn/x86_64/fingerprint.rs).
    fingerprint BIGINT NOT NULL,
    -- What was seen at its sites, as much as was left of it at that time, and races of them (`Sites` and `Raced` of hunt/memory.rs, in postcard).
    seen_in BLOB NOT NULL,
    seen BIGINT NOT NULL,
    PRIMARY KEY (module, at)
);
