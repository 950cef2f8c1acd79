CREATE TABLE revisions (
  space_id   INTEGER NOT NULL,
  key        TEXT NOT NULL,
  seq        INTEGER NOT NULL,
  path       TEXT NOT NULL,
  size       INTEGER NOT NULL,
  mtime      INTEGER NOT NULL,
  revision   TEXT NOT NULL,
  sha256     TEXT NOT NULL,
  mode       INTEGER NOT NULL,
  author     TEXT NOT NULL,
  content_id INTEGER NOT NULL,
  replaced   INTEGER NOT NULL,
  removed    INTEGER NOT NULL,
  live       INTEGER NOT NULL,
  UNIQUE (space_id, key, seq)
);
CREATE INDEX revisions_content ON revisions (content_id);
CREATE INDEX revisions_age ON revisions (space_id, replaced, seq);
