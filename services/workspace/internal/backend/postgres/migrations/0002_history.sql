CREATE TABLE revisions (
  space_id   BIGINT NOT NULL,
  key        TEXT COLLATE "C" NOT NULL,
  seq        BIGINT NOT NULL,
  path       TEXT COLLATE "C" NOT NULL,
  size       BIGINT NOT NULL,
  mtime      BIGINT NOT NULL,
  revision   TEXT NOT NULL,
  sha256     TEXT NOT NULL,
  mode       BIGINT NOT NULL,
  author     TEXT NOT NULL,
  content_id BIGINT NOT NULL,
  replaced   BIGINT NOT NULL,
  removed    BIGINT NOT NULL,
  live       BIGINT NOT NULL,
  UNIQUE (space_id, key, seq)
);
CREATE INDEX revisions_content ON revisions (content_id);
CREATE INDEX revisions_age ON revisions (space_id, replaced, seq);
