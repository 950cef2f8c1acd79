package journal_test

import (
	"testing"
	"time"

	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// FuzzRecord: a record is verified by the checksum that was stored with it, and by that of no other record, however the texts of its fields are cut and whatever its payload is.
func FuzzRecord(f *testing.F) {
	f.Add("message/added", "run", "turn", []byte("payload"), int64(7), "message/adde", "drun", "turn", []byte("payload"), int64(7))
	f.Add("", "x", "", []byte{0}, int64(0), "x", "", "", []byte(nil), int64(-1))
	f.Add("t\x00", "\xff", "t", []byte("a\nb"), int64(1), "t", "\x00\xff", "t", []byte("a"), int64(1))
	f.Fuzz(func(t *testing.T, kind, run, turn string, payload []byte, nanos int64, kind2, run2, turn2 string, payload2 []byte, nanos2 int64) {
		at := func(n int64) time.Time { return time.Unix(0, n&(1<<60-1)) }
		one := journal.Event{Schema: 1, ID: "e", Seq: 1, Time: at(nanos), Type: kind, RunID: run, TurnID: turn, Payload: payload, PayloadHash: journal.HashOf(payload)}
		two := journal.Event{Schema: 1, ID: "e", Seq: 1, Time: at(nanos2), Type: kind2, RunID: run2, TurnID: turn2, Payload: payload2, PayloadHash: journal.HashOf(payload2)}
		stored := journal.Chain(journal.Sum{}, &one)
		if err := (&journal.Verifier{}).Check(&one, stored); err != nil {
			t.Errorf("the record is not verified: %v", err)
		}
		same := kind == kind2 && run == run2 && turn == turn2 && string(payload) == string(payload2) && at(nanos).Equal(at(nanos2))
		if err := (&journal.Verifier{}).Check(&two, stored); (err == nil) != same {
			t.Errorf("another record: %v, same %t", err, same)
		}
		two.PayloadHash = one.PayloadHash
		if err := two.CheckPayload(); (err == nil) != (string(payload) == string(payload2)) {
			t.Errorf("another payload: %v", err)
		}
		redacted := one
		redacted.Payload, redacted.Redacted = nil, true
		if err := (&journal.Verifier{}).Check(&redacted, stored); err != nil || redacted.CheckPayload() != nil {
			t.Errorf("a redaction breaks the chain: %v", err)
		}
	})
}
