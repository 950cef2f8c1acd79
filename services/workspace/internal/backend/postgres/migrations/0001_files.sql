CREATE TABLE spaces (
  id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name       TEXT COLLATE "C" NOT NULL UNIQUE,
  generation TEXT NOT NULL,
  seq        BIGINT NOT NULL DEFAULT 0,
  revisions  BIGINT NOT NULL DEFAULT 0,
  bytes      BIGINT NOT NULL DEFAULT 0,
  files      BIGINT NOT NULL DEFAULT 0,
  whiteouts  BIGINT NOT NULL DEFAULT 0
);
CREATE TABLE nodes (
  space_id    BIGINT NOT NULL,
  key         TEXT COLLATE "C" NOT NULL,
  path        TEXT COLLATE "C" NOT NULL,
  parent      TEXT COLLATE "C" NOT NULL,
  parent_hash BIGINT NOT NULL,
  kind        BIGINT NOT NULL,
  size        BIGINT NOT NULL DEFAULT 0,
  mtime       BIGINT NOT NULL,
  revision    TEXT NOT NULL DEFAULT '',
  sha256      TEXT NOT NULL DEFAULT '',
  mode        BIGINT NOT NULL,
  author      TEXT NOT NULL DEFAULT '',
  content_id  BIGINT NOT NULL DEFAULT 0,
  UNIQUE (space_id, key)
);
CREATE INDEX nodes_parent ON nodes (space_id, parent_hash, key);
CREATE TABLE contents (
  id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  space_id    BIGINT NOT NULL,
  loose_since BIGINT NOT NULL,
  hash_state  BYTEA
);
CREATE INDEX contents_loose ON contents (loose_since) WHERE loose_since > 0;
CREATE INDEX contents_space ON contents (space_id);
CREATE TABLE chunks (
  content_id BIGINT NOT NULL,
  start      BIGINT NOT NULL,
  data       BYTEA NOT NULL,
  UNIQUE (content_id, start)
);
CREATE TABLE whiteouts (
  space_id BIGINT NOT NULL,
  key      TEXT COLLATE "C" NOT NULL,
  UNIQUE (space_id, key)
);
CREATE TABLE changes (
  space_id  BIGINT NOT NULL,
  seq       BIGINT NOT NULL,
  kind      BIGINT NOT NULL,
  path      TEXT COLLATE "C" NOT NULL,
  from_path TEXT COLLATE "C" NOT NULL,
  revision  TEXT NOT NULL,
  time      BIGINT NOT NULL,
  author    TEXT NOT NULL,
  UNIQUE (space_id, seq)
);
CREATE TABLE effects (
  space_id BIGINT NOT NULL,
  effect   TEXT COLLATE "C" NOT NULL,
  hash     TEXT NOT NULL,
  outcome  BYTEA NOT NULL,
  seq      BIGINT NOT NULL,
  time     BIGINT NOT NULL,
  UNIQUE (space_id, effect)
);
CREATE INDEX effects_time ON effects (space_id, time);
