-- Owners: one row a boot of a replica. state: 0 alive until expire, 1 judged expired or left, 2 its threads were taken from it.
CREATE TABLE owners (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,
  name    TEXT    NOT NULL UNIQUE,
  address TEXT    NOT NULL,
  expire  INTEGER NOT NULL,
  state   INTEGER NOT NULL
);
CREATE INDEX owners_state ON owners(state, expire);

-- Logs hold events. A fork's log begins after base in its parent. alive: a thread uses it.
CREATE TABLE logs (
  id     INTEGER PRIMARY KEY AUTOINCREMENT,
  parent INTEGER NOT NULL,
  base   INTEGER NOT NULL,
  depth  INTEGER NOT NULL,
  alive  INTEGER NOT NULL
);
CREATE INDEX logs_parent ON logs(parent, base) WHERE parent > 0;

-- Threads: the head of each journal, and all that a commit must look at. Times in nanoseconds since 1970. due: 0 at once, 2^63-1 never.
CREATE TABLE threads (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  key          TEXT    NOT NULL UNIQUE,
  tenant       TEXT    NOT NULL,
  user_key     TEXT    NOT NULL,
  log          INTEGER NOT NULL,
  base         INTEGER NOT NULL,
  seq          INTEGER NOT NULL,
  sum          BLOB    NOT NULL,
  epoch        INTEGER NOT NULL,
  owner        INTEGER NOT NULL,
  prev_owner   TEXT    NOT NULL,
  prev_address TEXT    NOT NULL,
  run          TEXT    NOT NULL,
  run_state    INTEGER NOT NULL,
  task         TEXT    NOT NULL,
  checkpoint   INTEGER NOT NULL,
  need_schema  INTEGER NOT NULL,
  created      INTEGER NOT NULL,
  updated      INTEGER NOT NULL,
  title        TEXT    NOT NULL,
  title_event  INTEGER NOT NULL,
  mail_next    INTEGER NOT NULL,
  mail_count   INTEGER NOT NULL,
  due          INTEGER NOT NULL,
  change       INTEGER NOT NULL,
  forked_from  TEXT    NOT NULL
);
CREATE UNIQUE INDEX threads_change ON threads(user_key, change);
CREATE INDEX threads_owner ON threads(owner, due);
CREATE INDEX threads_turn ON threads(tenant, due) WHERE owner = 0 AND due < 9223372036854775807;
CREATE INDEX threads_log ON threads(log);

-- Events: id is log * 2^32 + seq, so a log is one range of the table and needs no second index.
CREATE TABLE events (
  id        INTEGER PRIMARY KEY,
  time      INTEGER NOT NULL,
  schema    INTEGER NOT NULL,
  event     TEXT    NOT NULL,
  type      TEXT    NOT NULL,
  run       TEXT    NOT NULL,
  turn      TEXT    NOT NULL,
  step      INTEGER NOT NULL,
  required  INTEGER NOT NULL,
  batch_end INTEGER NOT NULL,
  redacted  INTEGER NOT NULL,
  reason    TEXT    NOT NULL,
  in_blob   INTEGER NOT NULL,
  size      INTEGER NOT NULL,
  hash      BLOB    NOT NULL,
  sum       BLOB    NOT NULL,
  payload   BLOB
);
CREATE INDEX events_checkpoint ON events(id) WHERE type = 'checkpoint/written' AND redacted = 0;

CREATE TABLE batches (
  id       INTEGER PRIMARY KEY,
  thread   INTEGER NOT NULL,
  batch    TEXT    NOT NULL,
  hash     BLOB    NOT NULL,
  seq      INTEGER NOT NULL,
  time     INTEGER NOT NULL,
  released INTEGER NOT NULL,
  UNIQUE (thread, batch)
);

-- Mail: a consumed message keeps its id and hash, without the payload.
CREATE TABLE mail (
  id       INTEGER PRIMARY KEY,
  thread   INTEGER NOT NULL,
  place    INTEGER NOT NULL,
  message  TEXT    NOT NULL,
  kind     TEXT    NOT NULL,
  hash     BLOB    NOT NULL,
  due      INTEGER NOT NULL,
  posted   INTEGER NOT NULL,
  wake     INTEGER NOT NULL,
  consumed INTEGER NOT NULL,
  payload  BLOB    NOT NULL,
  UNIQUE (thread, message)
);
CREATE INDEX mail_open ON mail(thread, place) WHERE consumed = 0;
CREATE INDEX mail_wake ON mail(thread, due) WHERE consumed = 0 AND wake = 1;

-- Blobs: loose means that somebody put it and no event has named it since; the data is apart so that this can change cheaply.
CREATE TABLE blobs (
  id     INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT    NOT NULL,
  hash   BLOB    NOT NULL,
  size   INTEGER NOT NULL,
  loose  INTEGER NOT NULL,
  UNIQUE (tenant, hash)
);
CREATE TABLE blob_data (
  id   INTEGER PRIMARY KEY,
  data BLOB NOT NULL
);
CREATE TABLE blob_refs (
  id    INTEGER PRIMARY KEY,
  event INTEGER NOT NULL,
  blob  INTEGER NOT NULL,
  UNIQUE (event, blob)
);
CREATE INDEX blob_refs_blob ON blob_refs(blob);

-- Graves: deleted threads, for the change feed and so that no epoch of a key comes again.
CREATE TABLE graves (
  id       INTEGER PRIMARY KEY,
  key      TEXT    NOT NULL UNIQUE,
  user_key TEXT    NOT NULL,
  epoch    INTEGER NOT NULL,
  change   INTEGER NOT NULL
);
CREATE UNIQUE INDEX graves_change ON graves(user_key, change);

-- Removals: deleted threads of which rows are left.
CREATE TABLE removals (
  thread INTEGER PRIMARY KEY,
  log    INTEGER NOT NULL
);
