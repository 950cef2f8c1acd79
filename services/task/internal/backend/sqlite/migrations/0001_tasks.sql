CREATE TABLE tasks (
  seq           INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant        TEXT NOT NULL,
  id            TEXT NOT NULL,
  owner         TEXT NOT NULL,
  root_owner    TEXT NOT NULL,
  parent_id     TEXT NOT NULL,
  root_id       TEXT NOT NULL,
  parent_thread TEXT NOT NULL,
  kind          TEXT NOT NULL,
  label         TEXT NOT NULL,
  schedule_id   TEXT NOT NULL,
  queue         TEXT NOT NULL,
  capability    TEXT NOT NULL,
  state         INTEGER NOT NULL,
  live          INTEGER NOT NULL,
  ready         INTEGER NOT NULL,
  rank          INTEGER NOT NULL,
  wake          INTEGER,
  ended         INTEGER,
  record        BLOB NOT NULL
);
CREATE UNIQUE INDEX tasks_id ON tasks (tenant, id);
CREATE INDEX tasks_ready ON tasks (tenant, queue, capability, rank, seq) WHERE ready = 1;
CREATE INDEX tasks_wake ON tasks (wake) WHERE wake IS NOT NULL;
CREATE INDEX tasks_owner ON tasks (owner, seq);
CREATE INDEX tasks_owner_live ON tasks (owner, seq) WHERE live = 1;
CREATE INDEX tasks_root_owner ON tasks (root_owner, seq) WHERE root_owner <> owner;
CREATE INDEX tasks_parent ON tasks (tenant, parent_id, seq) WHERE parent_id <> '';
CREATE INDEX tasks_root ON tasks (tenant, root_id, seq);
CREATE INDEX tasks_ended ON tasks (owner, ended) WHERE ended IS NOT NULL;
CREATE INDEX tasks_ended_all ON tasks (ended) WHERE ended IS NOT NULL;

-- Large parts live apart, so that a heartbeat does not write them again.
CREATE TABLE parts (
  seq    INTEGER PRIMARY KEY,
  input  BLOB,
  result BLOB
);

-- How many tasks have not ended, by owner ('o' and key) and tenant ('t' and name): counting rows would cost more the longer the queue is.
CREATE TABLE live (
  key   TEXT PRIMARY KEY,
  tasks INTEGER NOT NULL
);
CREATE TRIGGER tasks_live_insert AFTER INSERT ON tasks WHEN new.live = 1 BEGIN
  INSERT INTO live (key, tasks) VALUES ('o' || new.owner, 1), ('t' || new.tenant, 1) ON CONFLICT (key) DO UPDATE SET tasks = tasks + 1;
END;
CREATE TRIGGER tasks_live_update AFTER UPDATE OF live ON tasks WHEN old.live = 1 AND new.live = 0 BEGIN
  UPDATE live SET tasks = tasks - 1 WHERE key IN ('o' || new.owner, 't' || new.tenant);
  DELETE FROM live WHERE key IN ('o' || new.owner, 't' || new.tenant) AND tasks = 0;
END;

CREATE TABLE changes (
  cursor INTEGER PRIMARY KEY AUTOINCREMENT,
  owner  TEXT NOT NULL,
  purged INTEGER NOT NULL,
  time   INTEGER NOT NULL,
  record BLOB NOT NULL
);
CREATE INDEX changes_owner ON changes (owner, cursor);

CREATE TABLE effects (
  bucket  TEXT NOT NULL,
  id      TEXT NOT NULL,
  hash    BLOB NOT NULL,
  outcome BLOB NOT NULL,
  time    INTEGER NOT NULL
);
CREATE UNIQUE INDEX effects_id ON effects (bucket, id);
CREATE INDEX effects_time ON effects (time);

CREATE TABLE mail (
  tenant     TEXT NOT NULL,
  message_id TEXT NOT NULL,
  task_id    TEXT NOT NULL,
  thread     TEXT NOT NULL,
  kind       TEXT NOT NULL,
  payload    BLOB NOT NULL,
  wake       INTEGER NOT NULL,
  attempts   INTEGER NOT NULL,
  next       INTEGER NOT NULL,
  last_error TEXT NOT NULL
);
CREATE UNIQUE INDEX mail_id ON mail (tenant, message_id);
CREATE INDEX mail_task ON mail (tenant, task_id);
CREATE INDEX mail_next ON mail (next);

CREATE TABLE schedules (
  seq    INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT NOT NULL,
  id     TEXT NOT NULL,
  owner  TEXT NOT NULL,
  next   INTEGER,
  record BLOB NOT NULL
);
CREATE UNIQUE INDEX schedules_id ON schedules (tenant, id);
CREATE INDEX schedules_owner ON schedules (owner, seq);
CREATE INDEX schedules_next ON schedules (next) WHERE next IS NOT NULL;

CREATE TABLE meta (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
);
