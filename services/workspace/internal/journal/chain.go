package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
)

// Sum is a SHA-256.
type Sum [sha256.Size]byte

// HashOf returns the SHA-256 of the bytes.
func HashOf(b []byte) Sum { return sha256.Sum256(b) }

// String returns lower-case hex.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// ParseSum reads what [Sum.String] writes.
func ParseSum(text string) (Sum, bool) {
	var s Sum
	if len(text) != 2*len(s) {
		return s, false
	}
	n, err := hex.Decode(s[:], []byte(text))
	return s, err == nil && n == len(s) && s.String() == text
}

// Chain returns the checksum of an event that follows one with the checksum prev (zero before the first event). It covers the sequence, the
// time, the head of the event and the hash of its payload, not the payload itself: what is redacted can be removed without breaking the chain.
func Chain(prev Sum, e *Event) Sum {
	d := digest{sha256.New()}
	d.Write(prev[:])
	d.number(e.Seq)
	d.number(Nanos(e.Time))
	d.event(e)
	return d.sum()
}

// ChainHead is what an event adds to the chain behind its sequence and time, each of 8 bytes, big-endian: for a store whose database computes [Chain].
func (e *Event) ChainHead() []byte {
	var head bytesHash
	digest{&head}.event(e)
	return head.Bytes()
}

// bytesHash is a hash that keeps what is written.
type bytesHash struct{ bytes.Buffer }

func (h *bytesHash) Sum(b []byte) []byte { return append(b, h.Bytes()...) }
func (h *bytesHash) Size() int           { return h.Len() }
func (h *bytesHash) BlockSize() int      { return 1 }

// Verifier checks the chain of events in order, as a reader gets them.
type Verifier struct {
	// Seq and Sum are those of the event before the next one.
	Seq int64
	Sum Sum
}

// Check verifies the next event against the checksum that was stored with it. The error is JOURNAL_DAMAGED and names the sequence.
func (v *Verifier) Check(e *Event, stored Sum) error {
	want := v.Seq + 1
	if e.Seq != want {
		return Damaged(want, "the record is missing")
	}
	if Chain(v.Sum, e) != stored {
		return Damaged(want, "the record does not have its checksum")
	}
	v.Seq, v.Sum = e.Seq, stored
	return nil
}

// CheckPayload verifies the payload of an event, when it has one, against its hash. The error is JOURNAL_DAMAGED.
func (e *Event) CheckPayload() error {
	if !e.Redacted && HashOf(e.Payload) != e.PayloadHash {
		return Damaged(e.Seq, "the payload does not have its hash")
	}
	return nil
}
