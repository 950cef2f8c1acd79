-- The tables live in a schema of their own, so that the database can be that of the files.
CREATE SCHEMA IF NOT EXISTS journal;

-- Owners: one row a boot of a replica. state: 0 alive until expire, 1 judged expired or left, 2 its threads were taken from it.
CREATE TABLE journal.owners (
  id      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name    TEXT COLLATE "C" NOT NULL UNIQUE,
  address TEXT     NOT NULL,
  expire  BIGINT   NOT NULL,
  state   SMALLINT NOT NULL
);
CREATE INDEX owners_state ON journal.owners (state, expire);

-- Logs hold events. A fork's log begins after base in its parent. alive: a thread uses it.
CREATE TABLE journal.logs (
  id     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  parent BIGINT   NOT NULL,
  base   BIGINT   NOT NULL,
  depth  BIGINT   NOT NULL,
  alive  SMALLINT NOT NULL
);
CREATE INDEX logs_parent ON journal.logs (parent, base) WHERE parent > 0;

-- Threads: the head of each journal, and all that a commit must look at. Times in nanoseconds since 1970. due: 0 at once, 2^63-1 never. change orders
-- what happened; place is the place in the feed of the user, given when somebody reads the feed, and unplaced says that change came after that. So a
-- plain commit changes no column that an index has, and rows have room for their next versions on the same page.
CREATE TABLE journal.threads (
  id           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key          TEXT COLLATE "C" NOT NULL UNIQUE,
  tenant       TEXT COLLATE "C" NOT NULL,
  user_key     TEXT COLLATE "C" NOT NULL,
  log          BIGINT   NOT NULL,
  base         BIGINT   NOT NULL,
  seq          BIGINT   NOT NULL,
  sum          BYTEA    NOT NULL,
  epoch        BIGINT   NOT NULL,
  owner        BIGINT   NOT NULL,
  prev_owner   TEXT     NOT NULL,
  prev_address TEXT     NOT NULL,
  run          TEXT     NOT NULL,
  run_state    SMALLINT NOT NULL,
  task         TEXT     NOT NULL,
  checkpoint   BIGINT   NOT NULL,
  need_schema  BIGINT   NOT NULL,
  created      BIGINT   NOT NULL,
  updated      BIGINT   NOT NULL,
  title        TEXT     NOT NULL,
  title_event  BIGINT   NOT NULL,
  mail_next    BIGINT   NOT NULL,
  mail_count   BIGINT   NOT NULL,
  due          BIGINT   NOT NULL,
  change       BIGINT   NOT NULL,
  forked_from  TEXT     NOT NULL,
  place        BIGINT   NOT NULL DEFAULT 0,
  unplaced     BOOLEAN  NOT NULL DEFAULT TRUE
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX threads_place ON journal.threads (user_key, place) WHERE place > 0;
CREATE INDEX threads_unplaced ON journal.threads (user_key) WHERE unplaced;
CREATE INDEX threads_owner ON journal.threads (owner, due);
CREATE INDEX threads_turn ON journal.threads (tenant, due) WHERE owner = 0 AND due < 9223372036854775807;
CREATE INDEX threads_log ON journal.threads (log);
CREATE SEQUENCE journal.changes;
CREATE SEQUENCE journal.places;

-- Events: id is log * 2^32 + seq, so a log is one range of the index and needs no second one.
CREATE TABLE journal.events (
  id        BIGINT PRIMARY KEY,
  time      BIGINT   NOT NULL,
  schema    BIGINT   NOT NULL,
  event     TEXT     NOT NULL,
  type      TEXT     NOT NULL,
  run       TEXT     NOT NULL,
  turn      TEXT     NOT NULL,
  step      INTEGER  NOT NULL,
  required  SMALLINT NOT NULL,
  batch_end SMALLINT NOT NULL,
  redacted  SMALLINT NOT NULL,
  reason    TEXT     NOT NULL,
  in_blob   SMALLINT NOT NULL,
  size      BIGINT   NOT NULL,
  hash      BYTEA    NOT NULL,
  sum       BYTEA    NOT NULL,
  payload   BYTEA
);
CREATE INDEX events_checkpoint ON journal.events (id) WHERE type = 'checkpoint/written' AND redacted = 0;

CREATE TABLE journal.batches (
  thread   BIGINT   NOT NULL,
  batch    TEXT COLLATE "C" NOT NULL,
  hash     BYTEA    NOT NULL,
  seq      BIGINT   NOT NULL,
  time     BIGINT   NOT NULL,
  released SMALLINT NOT NULL,
  PRIMARY KEY (thread, batch)
);

-- Mail: a consumed message keeps its id and hash, without the payload.
CREATE TABLE journal.mail (
  thread   BIGINT   NOT NULL,
  place    BIGINT   NOT NULL,
  message  TEXT COLLATE "C" NOT NULL,
  kind     TEXT     NOT NULL,
  hash     BYTEA    NOT NULL,
  due      BIGINT   NOT NULL,
  posted   BIGINT   NOT NULL,
  wake     SMALLINT NOT NULL,
  consumed SMALLINT NOT NULL,
  payload  BYTEA    NOT NULL,
  PRIMARY KEY (thread, message)
);
CREATE INDEX mail_open ON journal.mail (thread, place) WHERE consumed = 0;
CREATE INDEX mail_wake ON journal.mail (thread, due) WHERE consumed = 0 AND wake = 1;

-- Blobs: loose means that somebody put it and no event has named it since; the data is apart so that this can change cheaply.
CREATE TABLE journal.blobs (
  id     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant TEXT COLLATE "C" NOT NULL,
  hash   BYTEA    NOT NULL,
  size   BIGINT   NOT NULL,
  loose  SMALLINT NOT NULL,
  UNIQUE (tenant, hash)
);
CREATE TABLE journal.blob_data (
  id   BIGINT PRIMARY KEY,
  data BYTEA NOT NULL
);
CREATE TABLE journal.blob_refs (
  event BIGINT NOT NULL,
  blob  BIGINT NOT NULL,
  PRIMARY KEY (event, blob)
);
CREATE INDEX blob_refs_blob ON journal.blob_refs (blob);

-- Graves: deleted threads, for the change feed and so that no epoch of a key comes again.
CREATE TABLE journal.graves (
  id       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key      TEXT COLLATE "C" NOT NULL UNIQUE,
  user_key TEXT COLLATE "C" NOT NULL,
  epoch    BIGINT  NOT NULL,
  change   BIGINT  NOT NULL,
  place    BIGINT  NOT NULL DEFAULT 0,
  unplaced BOOLEAN NOT NULL DEFAULT TRUE
);
CREATE UNIQUE INDEX graves_place ON journal.graves (user_key, place) WHERE place > 0;
CREATE INDEX graves_unplaced ON journal.graves (user_key) WHERE unplaced;

-- Removals: deleted threads of which rows are left.
CREATE TABLE journal.removals (
  thread BIGINT PRIMARY KEY,
  log    BIGINT NOT NULL
);

-- The clock of the store: nanoseconds since 1970, in whole microseconds; a test's when it is given.
CREATE FUNCTION journal.clock(given BIGINT) RETURNS BIGINT LANGUAGE SQL VOLATILE AS
  $$ SELECT CASE WHEN given > 0 THEN given ELSE (extract(epoch FROM clock_timestamp()) * 1000000)::BIGINT * 1000 END $$;
