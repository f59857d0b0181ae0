-- Nothing but a number: PostgreSQL has sightings in partitions by day from here on (`postgres/0007_days.sql`).

SELECT 1;
