-- What daemons have told that they have done, each since it was started. Times are milliseconds since 1970.
CREATE TABLE daemon (
    -- Drawn by each of them; empty: the sum of those that are too many.
    name TEXT NOT NULL PRIMARY KEY,
    -- When it has told that, and after how many others: clocks are set.
    told BIGINT NOT NULL,
    nth BIGINT NOT NULL,
    -- JSON (`DaemonFigures` of outbox/daemon.rs).
    figures TEXT NOT NULL
);
