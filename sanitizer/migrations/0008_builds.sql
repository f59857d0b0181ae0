-- Builds that are forgotten: whether something refers to one is told by indexes, which both engines need as well to see that nothing does. Older programs can use a store that has them.

CREATE INDEX sighting_by_build ON sighting (build);
CREATE INDEX evidence_by_build ON evidence (build);
