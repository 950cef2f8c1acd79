ALTER TABLE contents ADD COLUMN key TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE contents ADD COLUMN rev BIGINT NOT NULL DEFAULT 0;
ALTER TABLE contents ADD COLUMN signature BYTEA;
-- Half of the bits are random: there is nothing to compress.
ALTER TABLE contents ALTER COLUMN signature SET STORAGE EXTERNAL;
DROP INDEX contents_space;
CREATE INDEX contents_space ON contents (space_id, rev);
