-- By which rule the races are named (VERSION of report/identity.rs). One row. Those that were put in before this table was there have names by the second rule.

CREATE TABLE naming (
    version BIGINT NOT NULL
);
INSERT INTO naming (version) VALUES (2);
