package memory

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gantry-agents/gantry/services/memory/internal/index"
	"github.com/gantry-agents/gantry/services/memory/internal/markdown"
)

// statement is one statement of a memory file with its record. Without one, the record is made up and says so by its trust.
type statement struct {
	markdown.Unit
	Record
	recorded   bool
	occurrence int
}

// statements reads a memory file.
func (s *Service) statements(path, content string, records []Record, modified time.Time) []statement {
	resolve := newResolver(records)
	var out []statement
	for _, u := range markdown.Parse(content) {
		hash := contentHash(u.Text)
		rec, occurrence, ok := resolve.next(hash)
		if !ok {
			rec = Record{ID: factID("content", hash), Hash: hash, Kind: FactPlain, Provenance: Provenance{Time: s.dayOf(path, modified), Trust: TrustOutside}}
		}
		out = append(out, statement{u, rec, ok, occurrence})
	}
	return out
}

// dayOf is the time of a statement that has no record: the day of its ledger, else when the file last changed.
func (s *Service) dayOf(path string, modified time.Time) time.Time {
	if m := ledgerName.FindStringSubmatch(path); m != nil {
		if day, err := time.ParseInLocation(time.DateOnly, m[1], s.zone); err == nil {
			return day
		}
	}
	return modified
}

// docs makes the documents of a memory file.
func docs(path string, statements []statement) ([]index.Doc, error) {
	var out []index.Doc
	for _, st := range statements {
		meta, err := json.Marshal(st.Record)
		if err != nil {
			return nil, fmt.Errorf("memory: record: %w", err)
		}
		out = append(out, index.Doc{
			ID: fmt.Sprintf("%s#%s.%d", path, contentHash(st.Text)[:20], st.occurrence), Kind: KindOf(path), Source: path,
			Text: st.Text, Headings: st.Headings, Line: st.Unit.Line, EndLine: st.EndLine, Time: st.Time,
			FactID: st.ID, Hash: st.Hash, FactKind: uint8(st.Kind), Trust: uint8(st.Trust),
			Session: st.Session, Seq: st.Seq, Speaker: st.Speaker, Meta: meta,
		})
	}
	return out, nil
}

// fingerprint changes with anything in a document.
func fingerprint(d *index.Doc) (string, error) {
	data, err := json.Marshal(d)
	if err != nil {
		return "", fmt.Errorf("memory: document: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:6]), nil
}

// factOf makes a fact of a document.
func factOf(d index.Doc) (Fact, error) {
	var r Record
	if err := json.Unmarshal(d.Meta, &r); err != nil {
		return Fact{}, fmt.Errorf("%w: the record of a document: %w", index.ErrDamaged, err)
	}
	f := r.fact()
	f.Text, f.Path, f.Line = d.Text, d.Source, d.Line
	return f, nil
}
