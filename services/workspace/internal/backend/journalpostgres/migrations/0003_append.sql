-- The chain of checksums over the events of a commit: each covers the one before it, the first one that of the head.
CREATE FUNCTION journal.link(sum BYTEA, head BYTEA, event BYTEA) RETURNS BYTEA LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS
  $$ BEGIN RETURN sha256(coalesce(sum, head) || event); END $$;
CREATE AGGREGATE journal.chain(head BYTEA, event BYTEA) (SFUNC = journal.link, STYPE = BYTEA);
