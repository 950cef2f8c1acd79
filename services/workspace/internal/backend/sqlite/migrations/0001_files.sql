CREATE TABLE spaces (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  name       TEXT NOT NULL UNIQUE,
  generation TEXT NOT NULL,
  seq        INTEGER NOT NULL DEFAULT 0,
  revisions  INTEGER NOT NULL DEFAULT 0,
  bytes      INTEGER NOT NULL DEFAULT 0,
  files      INTEGER NOT NULL DEFAULT 0,
  whiteouts  INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE nodes (
  space_id    INTEGER NOT NULL,
  key         TEXT NOT NULL,
  path        TEXT NOT NULL,
  parent      TEXT NOT NULL,
  parent_hash INTEGER NOT NULL,
  kind        INTEGER NOT NULL,
  size        INTEGER NOT NULL DEFAULT 0,
  mtime       INTEGER NOT NULL,
  revision    TEXT NOT NULL DEFAULT '',
  sha256      TEXT NOT NULL DEFAULT '',
  mode        INTEGER NOT NULL,
  author      TEXT NOT NULL DEFAULT '',
  content_id  INTEGER NOT NULL DEFAULT 0,
  UNIQUE (space_id, key)
);
CREATE INDEX nodes_parent ON nodes (space_id, parent_hash, key);
CREATE TABLE contents (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  space_id    INTEGER NOT NULL,
  loose_since INTEGER NOT NULL,
  hash_state  BLOB
);
CREATE INDEX contents_loose ON contents (loose_since) WHERE loose_since > 0;
CREATE INDEX contents_space ON contents (space_id);
CREATE TABLE chunks (
  content_id INTEGER NOT NULL,
  start      INTEGER NOT NULL,
  data       BLOB NOT NULL,
  UNIQUE (content_id, start)
);
CREATE TABLE whiteouts (
  space_id INTEGER NOT NULL,
  key      TEXT NOT NULL,
  UNIQUE (space_id, key)
);
CREATE TABLE changes (
  space_id  INTEGER NOT NULL,
  seq       INTEGER NOT NULL,
  kind      INTEGER NOT NULL,
  path      TEXT NOT NULL,
  from_path TEXT NOT NULL,
  revision  TEXT NOT NULL,
  time      INTEGER NOT NULL,
  author    TEXT NOT NULL,
  UNIQUE (space_id, seq)
);
CREATE TABLE effects (
  space_id INTEGER NOT NULL,
  effect   TEXT NOT NULL,
  hash     TEXT NOT NULL,
  outcome  BLOB NOT NULL,
  seq      INTEGER NOT NULL,
  time     INTEGER NOT NULL,
  UNIQUE (space_id, effect)
);
CREATE INDEX effects_time ON effects (space_id, time);
