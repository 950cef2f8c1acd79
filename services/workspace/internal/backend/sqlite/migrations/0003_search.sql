ALTER TABLE contents ADD COLUMN key TEXT NOT NULL DEFAULT '';
ALTER TABLE contents ADD COLUMN rev INTEGER NOT NULL DEFAULT 0;
ALTER TABLE contents ADD COLUMN signature BLOB;
DROP INDEX contents_space;
CREATE INDEX contents_space ON contents (space_id, rev);
