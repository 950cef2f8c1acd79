package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/memory/internal/text"
)

// maxPortionTokens bounds the ledger entries of one merge, so that a model can take them in.
const maxPortionTokens = 8000

// state says how far the ledgers were consolidated: the watermark of the bucket.
type state struct {
	Version int             `json:"version"`
	Ledgers map[string]mark `json:"ledgers"`
	RunTime time.Time       `json:"run_time"`

	info File
}

// mark is how far one ledger was read. The hash of what was read shows whether somebody edited it since.
type mark struct {
	Bytes    int    `json:"bytes"`
	SHA256   string `json:"sha256"`
	Revision string `json:"revision,omitempty"`
}

func (s *Service) readState(ctx context.Context) (st state, err error) {
	data, info, err := s.files.Read(ctx, stateFile)
	if errors.Is(err, ErrNoFile) {
		return state{Version: 1, Ledgers: map[string]mark{}}, nil
	}
	if err != nil {
		return st, err
	}
	if err := json.Unmarshal(data, &st); err != nil || st.Version != 1 {
		return st, errdefs.New(errdefs.ErrDataLoss, Domain, ReasonStateDamaged,
			"the watermark of consolidation can't be read; remove the file to consolidate every ledger again").With("path", stateFile)
	}
	if st.Ledgers == nil {
		st.Ledgers = map[string]mark{}
	}
	st.info = info
	return st, nil
}

// change is the write of the state over the one that was read.
func (st state) change() (Change, error) {
	st.Version = 1
	data, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return Change{}, fmt.Errorf("memory: state: %w", err)
	}
	condition, revision := guard(st.info)
	return Change{Path: stateFile, Content: append(data, '\n'), Condition: condition, Revision: revision}, nil
}

// pending reads the ledger entries beyond the watermark, oldest ledger first, at most one portion, and gives the state after them.
func (s *Service) pending(ctx context.Context, st state) (entries []ledgerEntry, next state, more bool, err error) {
	next = state{Ledgers: map[string]mark{}, RunTime: s.now().In(s.zone), info: st.info}
	files, err := s.memoryFiles(ctx)
	if err != nil {
		return nil, next, false, err
	}
	handled, err := s.handled(ctx, files)
	if err != nil {
		return nil, next, false, err
	}
	tokens := 0
	for _, f := range sortedMemory(files) {
		if !ledgerName.MatchString(f.Path) {
			continue
		}
		m := st.Ledgers[f.Path]
		next.Ledgers[f.Path] = m
		if m.Revision != "" && m.Revision == f.Revision {
			continue
		}
		if tokens >= maxPortionTokens {
			more = true
			continue
		}
		data, info, err := s.files.Read(ctx, f.Path)
		if err != nil {
			return nil, next, false, err
		}
		records, _, err := s.readRecords(ctx, f.Path)
		if err != nil {
			return nil, next, false, err
		}
		content := string(data)
		edited := m.Bytes > len(content) || hashOf(content[:m.Bytes]) != m.SHA256 && m.Bytes > 0
		end := len(content)
		for _, item := range s.statements(f.Path, content, records, info.ModTime) {
			switch {
			case !edited && item.Offset < m.Bytes:
				continue
			case edited && item.recorded && !item.Time.After(st.RunTime):
				continue // the ledger was edited by hand; what is recorded as older was read before
			}
			if at, ok := handled[item.ID]; ok && !item.Time.After(at) {
				continue
			}
			if tokens >= maxPortionTokens {
				end, more = item.Offset, true
				break
			}
			tokens += text.EstimateTokens(item.Text)
			entries = append(entries, ledgerEntry{item, f.Path})
		}
		read := mark{Bytes: end, SHA256: hashOf(content[:end])}
		if end == len(content) {
			read.Revision = info.Revision
		}
		next.Ledgers[f.Path] = read
	}
	return entries, next, more, nil
}

// handled gives the facts that lines of MEMORY.md or the overflow were made from, with the time of the newest: after a crash before the watermark they are not merged
// twice. Records count only with their lines, since they are written first.
func (s *Service) handled(ctx context.Context, files map[string]File) (map[string]time.Time, error) {
	out := map[string]time.Time{}
	for path := range files {
		if !isMemory(path) || ledgerName.MatchString(path) || files[recordPath(path)].Path == "" {
			continue
		}
		content, info, err := s.files.Read(ctx, path)
		if errors.Is(err, ErrNoFile) {
			continue
		}
		if err != nil {
			return nil, err
		}
		records, _, err := s.readRecords(ctx, path)
		if err != nil {
			return nil, err
		}
		for _, st := range s.statements(path, string(content), records, info.ModTime) {
			for _, id := range st.From {
				if at, known := out[id]; !known || st.Time.After(at) {
					out[id] = st.Time
				}
			}
		}
	}
	return out, nil
}

func hashOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
