-- The same, of all partitions: that may take as long as it takes.

SET LOCAL statement_timeout = 0;
CREATE INDEX sighting_by_build ON sighting (build);
CREATE INDEX evidence_by_build ON evidence (build);
