package journalpostgres

import "github.com/gantry-agents/gantry/services/workspace/internal/journal"

// appendArgs are the arguments of appendCall.
func appendArgs(now int64, set []*commit) []any {
	n, events := len(set), 0
	for _, c := range set {
		events += len(c.batch.Events)
	}
	var (
		keys, owners, batches                        = make([]string, n), make([]string, n), make([]string, n)
		epochs, expected, counts, checkpoints, needs = make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
		batchHashes                                  = make([][]byte, n)
		numbers, places, schemas                     = make([]int64, 0, events), make([]int64, 0, events), make([]int64, 0, events)
		heads, hashes, payloads                      = make([][]byte, 0, events), make([][]byte, 0, events), make([][]byte, 0, events)
		ids, types, runs, turns                      = make([]string, 0, events), make([]string, 0, events), make([]string, 0, events), make([]string, 0, events)
		steps                                        = make([]int32, 0, events)
		required                                     = make([]int16, 0, events)
	)
	for i, c := range set {
		b := c.batch
		keys[i], owners[i], epochs[i], batches[i], batchHashes[i], expected[i], counts[i] = c.key, b.Owner, b.Epoch, b.ID, c.hash[:], b.Expected, int64(len(b.Events))
		for j := range b.Events {
			e := &b.Events[j]
			payload, must := e.Payload, int16(0)
			if payload == nil {
				payload = []byte{}
			}
			if e.Type == journal.TypeCheckpoint {
				checkpoints[i] = int64(j + 1)
			}
			if e.Required {
				must, needs[i] = 1, max(needs[i], int64(e.Schema))
			}
			numbers, places, schemas, steps, required = append(numbers, int64(i+1)), append(places, int64(j+1)), append(schemas, int64(e.Schema)), append(steps, e.Step), append(required, must)
			heads, hashes, payloads = append(heads, e.ChainHead()), append(hashes, e.PayloadHash[:]), append(payloads, payload)
			ids, types, runs, turns = append(ids, e.ID), append(types, e.Type), append(runs, e.RunID), append(turns, e.TurnID)
		}
	}
	return []any{
		now, keys, owners, epochs, batches, batchHashes, expected, counts, checkpoints, needs,
		numbers, places, heads, schemas, ids, types, runs, turns, steps, required, hashes, payloads,
	}
}

// appendOneArgs are the arguments of appendOneCall.
func appendOneArgs(now int64, c *commit) []any {
	b, e := c.batch, &c.batch.Events[0]
	payload, required, checkpoint, need := e.Payload, int16(0), int64(0), int64(0)
	if payload == nil {
		payload = []byte{}
	}
	if e.Type == journal.TypeCheckpoint {
		checkpoint = 1
	}
	if e.Required {
		required, need = 1, int64(e.Schema)
	}
	return []any{
		now, c.key, b.Owner, b.Epoch, b.ID, c.hash[:], b.Expected, checkpoint, need,
		e.ChainHead(), int64(e.Schema), e.ID, e.Type, e.RunID, e.TurnID, e.Step, required, e.PayloadHash[:], payload,
	}
}
