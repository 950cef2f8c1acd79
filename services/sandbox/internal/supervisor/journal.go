package supervisor

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

const recordsFile = "records.jsonl"

// journal is the file of exec records: one line before each fork and one at each exit. It is written, not synced: it must survive the death of a
// process, and a sandbox does not survive the death of the machine.
type journal struct{ file *os.File }

func openJournal(dir string) (*journal, error) {
	f, err := os.OpenFile(filepath.Join(dir, recordsFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return &journal{f}, err
}

func (j *journal) write(r sandbox.Record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = j.file.Write(append(line, '\n'))
	return err
}

// ReadRecords reads the records of an instance whose supervisor is gone. Execs without an end are lost: nobody saw how they ended. A torn last line
// belongs to a record that was never acknowledged, and is left out.
func ReadRecords(dir string) ([]sandbox.Record, error) {
	f, err := os.Open(filepath.Join(dir, recordsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []sandbox.Record
	index := map[string]int{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxFrame)
	for lines.Scan() {
		var r sandbox.Record
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue
		}
		if i, ok := index[r.ID]; ok {
			out[i] = r
			continue
		}
		index[r.ID] = len(out)
		out = append(out, r)
	}
	for i := range out {
		if out[i].Exit.State == sandbox.StateRunning {
			out[i].Exit.State = sandbox.StateLost
			out[i].End = time.Now()
		}
	}
	return out, lines.Err()
}
