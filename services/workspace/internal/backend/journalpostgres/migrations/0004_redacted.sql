-- The epoch in which events of the thread were redacted last: the owner of that epoch may still know them. 0: in none.
ALTER TABLE journal.threads ADD COLUMN redacted_epoch BIGINT NOT NULL DEFAULT 0;
