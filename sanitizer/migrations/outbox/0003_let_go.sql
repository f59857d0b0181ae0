-- What was kept for somebody whom the configuration names no more, and was let go: messages that had a number, and all of it, events and items too.
ALTER TABLE state ADD COLUMN messages_lost BIGINT NOT NULL DEFAULT 0;
ALTER TABLE state ADD COLUMN let_go BIGINT NOT NULL DEFAULT 0;
