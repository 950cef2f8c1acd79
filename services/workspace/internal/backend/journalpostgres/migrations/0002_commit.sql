-- One call makes a commit that has nothing special: the thread is there and not locked, the owner holds it, the head is the expected one, the batch is new, its
-- mail can be consumed, payloads are inline and name no blobs, and there are no timers. For all others it changes nothing and done is false.
CREATE FUNCTION journal.commit(
  given_now BIGINT, thread_key TEXT, owner_name TEXT, owner_epoch BIGINT, batch_id TEXT, batch_hash BYTEA, expected BIGINT,
  heads BYTEA[], schemas BIGINT[], ids TEXT[], types TEXT[], runs TEXT[], turns TEXT[], steps INTEGER[], requireds SMALLINT[], hashes BYTEA[], payloads BYTEA[],
  consume TEXT[], new_run TEXT, new_state SMALLINT, new_task TEXT, release BOOLEAN, new_title TEXT, title_hint TEXT, title_from BIGINT,
  OUT done BOOLEAN, OUT made BIGINT, OUT thread BIGINT, OUT head BIGINT, OUT open_mail BIGINT, OUT due_at BIGINT
) LANGUAGE plpgsql AS $$
DECLARE
  t          RECORD;
  events     INTEGER := cardinality(ids);
  first_wake BIGINT := 9223372036854775807;
BEGIN
  done := FALSE;
  SELECT h.* INTO t FROM journal.threads h JOIN journal.owners o ON o.id = h.owner
    WHERE h.key = thread_key AND h.epoch = owner_epoch AND o.name = owner_name AND o.state = 0
    FOR UPDATE OF h SKIP LOCKED;
  IF NOT FOUND OR (expected >= 0 AND expected <> t.seq) OR t.seq + events > 4294967295 THEN
    RETURN;
  END IF;
  IF cardinality(consume) > 0 AND cardinality(consume) <> (
    SELECT count(*) FROM journal.mail m WHERE m.thread = t.id AND m.message = ANY (consume) AND m.consumed = 0
  ) THEN
    RETURN;
  END IF;
  -- A clock that runs back by the little that clocks are corrected by is not followed.
  made := journal.clock(given_now);
  IF made < t.updated AND t.updated - made <= 1000000000 THEN
    made := t.updated;
  END IF;
  head := t.seq + events;
  INSERT INTO journal.batches VALUES (t.id, batch_id, batch_hash, head, made, release::INTEGER) ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  FOR i IN 1 .. events LOOP
    t.seq := t.seq + 1;
    t.sum := sha256(t.sum || int8send(t.seq) || int8send(made) || heads[i]);
    INSERT INTO journal.events VALUES (t.log << 32 | t.seq, made, schemas[i], ids[i], types[i], runs[i], turns[i], steps[i], requireds[i], (i = events)::INTEGER,
      0, '', 0, length(payloads[i]), hashes[i], t.sum, payloads[i]);
    IF types[i] = 'checkpoint/written' THEN
      t.checkpoint := t.seq;
    END IF;
    IF requireds[i] = 1 AND schemas[i] > t.need_schema THEN
      t.need_schema := schemas[i];
    END IF;
  END LOOP;
  IF cardinality(consume) > 0 THEN
    UPDATE journal.mail m SET consumed = 1, payload = '' WHERE m.thread = t.id AND m.message = ANY (consume);
    t.mail_count := t.mail_count - cardinality(consume);
  END IF;
  IF new_state IN (1, 2) THEN
    t.run := new_run; t.run_state := new_state; t.task := new_task;
  ELSIF new_state = 3 AND t.run = new_run THEN
    t.run := ''; t.run_state := 0; t.task := '';
  END IF;
  IF new_title <> '' THEN
    t.title := new_title; t.title_event := 0;
  ELSIF title_hint <> '' AND t.title = '' THEN
    t.title := title_hint; t.title_event := t.log << 32 | (t.seq - events + 1 + title_from);
  END IF;
  IF t.mail_count > 0 THEN
    SELECT coalesce(min(m.due), first_wake) INTO first_wake FROM journal.mail m WHERE m.thread = t.id AND m.consumed = 0 AND m.wake = 1;
  END IF;
  t.due := CASE WHEN t.run <> '' AND t.task <> '' THEN 9223372036854775807 WHEN t.run_state = 1 THEN 0 ELSE first_wake END;
  IF events > 0 OR new_title <> '' OR new_state <> 0 THEN
    t.updated := made; t.change := nextval('journal.changes'); t.unplaced := TRUE;
  END IF;
  IF release THEN
    t.owner := 0; t.prev_owner := ''; t.prev_address := '';
  END IF;
  UPDATE journal.threads h SET seq = t.seq, sum = t.sum, owner = t.owner, prev_owner = t.prev_owner, prev_address = t.prev_address, run = t.run,
    run_state = t.run_state, task = t.task, checkpoint = t.checkpoint, need_schema = t.need_schema, updated = t.updated, title = t.title,
    title_event = t.title_event, mail_count = t.mail_count, due = t.due, change = t.change, unplaced = t.unplaced WHERE h.id = t.id;
  done := TRUE;
  thread := t.id;
  open_mail := t.mail_count;
  due_at := CASE WHEN t.owner = 0 THEN t.due ELSE 9223372036854775807 END;
END $$;
