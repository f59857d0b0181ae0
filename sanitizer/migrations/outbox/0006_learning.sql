-- What was learned of functions is an item as well, and is dropped first (class -1). How many functions were dropped since the file was made.
ALTER TABLE state ADD COLUMN learning BIGINT NOT NULL DEFAULT 0;
