package memory

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gantry-agents/gantry/services/memory/internal/text"
)

// maxRecordBytes bounds one line of a file of records.
const maxRecordBytes = 1 << 20

// Record says where one statement comes from. It is found by the hash of the statement as it stands in the file.
type Record struct {
	ID   string `json:"id,omitempty"`
	Hash string `json:"hash,omitempty"`
	// Line is the hash of the statement as it stands in the file, where that is not Hash: quotations, dated lines.
	Line  string   `json:"line,omitempty"`
	Kind  FactKind `json:"kind,omitempty"`
	Topic string   `json:"topic,omitempty"`
	Provenance
	// From are the facts that consolidation made the statement from.
	From []string `json:"from,omitempty"`
	// Heading is the hash of a headline that consolidation wrote; such a record is about no statement.
	Heading string `json:"heading,omitempty"`
	// Effect and Request are set in the receipt of a save: what was asked under that effect id, and which facts of it were written.
	Effect   string `json:"effect,omitempty"`
	Request  string `json:"request,omitempty"`
	Ordinals []int  `json:"ordinals,omitempty"`
}

// lineHash is the hash by which the record is found.
func (r Record) lineHash() string {
	if r.Line != "" {
		return r.Line
	}
	return r.Hash
}

// fact makes a fact of a record.
func (r Record) fact() Fact {
	return Fact{ID: r.ID, Kind: r.Kind, Topic: r.Topic, Provenance: r.Provenance, Hash: r.Hash, From: r.From}
}

// contentHash is the hash of a statement; statements that differ in letter case, accents or white space alone have the same.
func contentHash(s string) string {
	sum := sha256.Sum256([]byte(text.Canonical(s)))
	return hex.EncodeToString(sum[:])
}

var idText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// factID makes an id of parts, each preceded by its length.
func factID(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return "f_" + idText.EncodeToString(h.Sum(nil))[:26]
}

// encodeRecords writes records as JSON Lines.
func encodeRecords(records []Record) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, r := range records {
		if err := enc.Encode(r); err != nil {
			return nil, fmt.Errorf("memory: record: %w", err)
		}
	}
	return b.Bytes(), nil
}

// decodeRecords reads JSON Lines. A line that is no record is passed over: the statement that it was about then counts as written outside, which never
// raises its trust.
func decodeRecords(data []byte) []Record {
	var out []Record
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxRecordBytes)
	for lines.Scan() {
		var r Record
		if json.Unmarshal(lines.Bytes(), &r) == nil {
			out = append(out, r)
		}
	}
	return out
}

// readRecords reads the records of a memory file; none when there are none. The file is the records' own.
func (s *Service) readRecords(ctx context.Context, file string) ([]Record, File, error) {
	data, info, err := s.files.Read(ctx, recordPath(file))
	if errors.Is(err, ErrNoFile) {
		return nil, File{}, nil
	}
	if err != nil {
		return nil, File{}, err
	}
	return decodeRecords(data), info, nil
}

// resolver finds the records of the statements of one file. The same statement several times takes its records in order.
type resolver struct {
	byLine map[string][]Record
	seen   map[string]int
}

func newResolver(records []Record) *resolver {
	r := &resolver{byLine: map[string][]Record{}, seen: map[string]int{}}
	for _, rec := range records {
		if h := rec.lineHash(); h != "" {
			r.byLine[h] = append(r.byLine[h], rec)
		}
	}
	return r
}

// next gives the record of the next statement with that hash, and how many came before it.
func (r *resolver) next(hash string) (rec Record, occurrence int, ok bool) {
	occurrence = r.seen[hash]
	r.seen[hash]++
	found := r.byLine[hash]
	if len(found) == 0 {
		return Record{}, occurrence, false
	}
	return found[min(occurrence, len(found)-1)], occurrence, true
}
