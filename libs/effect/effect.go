// Package effect makes and reads effect ids, by which a mutating call happens exactly once.
//
// An effect id names one intended change: the caller sends it in the metadata of the call, the service that makes the
// change records it together with the outcome, and a repeat under the same id returns the recorded outcome. The same
// intention always gives the same id, after a crash and on another machine too; so an id is made of the place in the
// run where the intention arose, and of the time at which it was first dispatched.
//
//	e1.<milliseconds, base 36>.<26 characters of hash>         an effect of a run, or of a client
//	e1.<…>.<…>/<name>/<name>                                   what a service does further for that effect
//
// Records live for [RecordLife]; ids older than [MaxAge] are refused, so an id is never answered from a store that has
// forgotten it.
package effect

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

const (
	// MaxAge is the age from which an id is refused as expired.
	MaxAge = 6 * 24 * time.Hour
	// RecordLife is how long a service keeps the outcome of an effect at least.
	RecordLife = 7 * 24 * time.Hour
	// MaxSkew is how far the dispatch time of an id may lie in the future: clocks of machines differ.
	MaxSkew = time.Hour

	// ReasonMalformed is the reason of a text that is no effect id.
	ReasonMalformed = "EFFECT_MALFORMED"
	// ReasonExpired is the reason of an id that is too old: whether its effect took place is unknown.
	ReasonExpired = "EFFECT_EXPIRED"
	// ReasonMismatch is the reason when another request was recorded under the same id.
	ReasonMismatch = "EFFECT_MISMATCH"

	version   = "e1"
	hashChars = 26
	// maxBytes is the bound of an id as metadata value; a longer derived id gets its names folded into a hash.
	maxBytes = identity.MaxIDBytes
	// foldMark begins a folded name. Encoded names never begin with it.
	foldMark = "~"
)

var hashText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// ID is an effect id in parts.
type ID struct {
	// Root is the id without derived names.
	Root string
	// Time is when the effect was first dispatched, to the millisecond.
	Time time.Time
	// Names are the names of the derivations, outermost first.
	Names []string
}

// New returns the id of an effect of a run: the model request of that sequence number asked for it as the tool's call
// number ordinal. The time is when it was first dispatched; a repeat must pass the same time, from the journal.
func New(thread identity.Thread, run string, seq int64, ordinal int, at time.Time) string {
	var numbers [16]byte
	binary.BigEndian.PutUint64(numbers[:8], uint64(seq))
	binary.BigEndian.PutUint64(numbers[8:], uint64(ordinal))
	return compose(at, []byte("run"), []byte(thread.Key()), []byte(run), numbers[:])
}

// Random returns a new id for an intention that arose outside of a run, in a client. Keep it to repeat the call.
func Random(at time.Time) string {
	var random [16]byte
	rand.Read(random[:])
	return compose(at, []byte("client"), random[:])
}

// For returns the id of an intention that parts name completely, such as a task and the number of its attempt. Equal
// parts and time give equal ids.
func For(at time.Time, parts ...string) string {
	raw := [][]byte{[]byte("named")}
	for _, part := range parts {
		raw = append(raw, []byte(part))
	}
	return compose(at, raw...)
}

// Derive returns the id of one thing that is done for the effect parent. Names of one parent must differ. The result is
// deterministic and never longer than metadata allows: names that would make it longer are folded into a hash. The
// empty parent has no derived ids: the result is empty.
func Derive(parent, name string) string {
	if parent == "" {
		return ""
	}
	id := parent + "/" + identity.EncodeSegment(name)
	if len(id) <= maxBytes {
		return id
	}
	root, _, _ := strings.Cut(parent, "/")
	sum := sha256.Sum256([]byte(id))
	return root + "/" + foldMark + hashText.EncodeToString(sum[:])[:hashChars]
}

// Parse reads an id. The error's reason is EFFECT_MALFORMED.
func Parse(id string) (ID, error) {
	root, names, derived := strings.Cut(id, "/")
	fields := strings.Split(root, ".")
	if len(id) > maxBytes || len(fields) != 3 || fields[0] != version || len(fields[2]) != hashChars {
		return ID{}, malformed()
	}
	millis, err := strconv.ParseInt(fields[1], 36, 64)
	if err != nil || millis < 0 || strconv.FormatInt(millis, 36) != fields[1] {
		return ID{}, malformed()
	}
	if strings.ContainsFunc(fields[2], func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '2' && r <= '7') }) {
		return ID{}, malformed()
	}
	parsed := ID{Root: root, Time: time.UnixMilli(millis).UTC()}
	if !derived {
		return parsed, nil
	}
	parsed.Names = strings.Split(names, "/")
	for _, name := range parsed.Names {
		if name == "" {
			return ID{}, malformed()
		}
	}
	return parsed, nil
}

// Expired says whether the id is older than [MaxAge]. A text that is no id counts as expired.
func Expired(id string, now time.Time) bool {
	parsed, err := Parse(id)
	return err != nil || now.Sub(parsed.Time) > MaxAge
}

// Check says whether a service may act under the id now: EFFECT_MALFORMED when it is no id or dated more than [MaxSkew]
// ahead, EFFECT_EXPIRED (class FAILED_PRECONDITION) when it is too old. The empty id is fine: the call asks for no
// exactly-once.
func Check(id string, now time.Time) error {
	if id == "" {
		return nil
	}
	parsed, err := Parse(id)
	if err != nil {
		return err
	}
	age := now.Sub(parsed.Time)
	switch {
	case age > MaxAge:
		return errdefs.New(errdefs.ErrFailedPrecondition, errdefs.DomainCommon, ReasonExpired,
			"the effect id is %s old, at most %s are allowed; whether the effect took place is unknown",
			age.Round(time.Minute), MaxAge).With("effect", id)
	case age < -MaxSkew:
		return errdefs.New(errdefs.ErrInvalidArgument, errdefs.DomainCommon, ReasonMalformed,
			"the effect id is dated %s ahead of the server's clock", (-age).Round(time.Minute)).With("effect", id)
	}
	return nil
}

// Mismatch is the error for an id under which another request is recorded.
func Mismatch(id string) error {
	return errdefs.New(errdefs.ErrAborted, errdefs.DomainCommon, ReasonMismatch,
		"another request was recorded under this effect id").With("effect", id)
}

// compose makes a root id. Each part is preceded by its length, so that no two lists of parts look alike.
func compose(at time.Time, parts ...[]byte) string {
	h := sha256.New()
	var size [8]byte
	for _, part := range parts {
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write(part)
	}
	millis := max(at.UnixMilli(), 0)
	return version + "." + strconv.FormatInt(millis, 36) + "." + hashText.EncodeToString(h.Sum(nil))[:hashChars]
}

func malformed() error {
	return errdefs.New(errdefs.ErrInvalidArgument, errdefs.DomainCommon, ReasonMalformed,
		"the effect id is not of the form e1.TIME.HASH, as package effect makes it")
}
