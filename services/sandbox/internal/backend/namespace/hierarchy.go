package namespace

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// hierarchy says where sandboxes are put in the control group trees of this machine.
type hierarchy struct {
	// Unified is our parent in the version 2 tree: it kills, freezes and counts CPU time, with or without controllers.
	Unified string `json:"unified"`
	// V1 maps each controller to our parent in its version 1 tree. Empty: the controllers are in the version 2 tree.
	V1 map[string]string `json:"v1,omitempty"`
}

// findHierarchy reads where this process is and appends parent to that place, so that limits set on the service hold for its sandboxes too.
func findHierarchy(procDir, parent string) (hierarchy, error) {
	own, err := ownGroups(filepath.Join(procDir, "cgroup"))
	if err != nil {
		return hierarchy{}, err
	}
	f, err := os.Open(filepath.Join(procDir, "mountinfo"))
	if err != nil {
		return hierarchy{}, err
	}
	defer f.Close()
	h := hierarchy{V1: map[string]string{}}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// ID parent major:minor root mountpoint options [optional…] - type source superoptions
		left, right, ok := strings.Cut(lines.Text(), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 3 {
			continue
		}
		root, point := l[3], l[4]
		place := func(name string) string {
			rel, err := filepath.Rel(root, own[name])
			if err != nil || strings.HasPrefix(rel, "..") {
				rel = "."
			}
			return filepath.Join(point, rel, parent)
		}
		switch r[0] {
		case "cgroup2":
			h.Unified = place("")
		case "cgroup":
			for _, c := range controllers {
				for opt := range strings.SplitSeq(r[2], ",") {
					if opt == c {
						h.V1[c] = place(c)
					}
				}
			}
		}
	}
	return h, lines.Err()
}

// ownGroups reads /proc/self/cgroup: controller (or "" for version 2) to path.
func ownGroups(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	own := map[string]string{}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for name := range strings.SplitSeq(parts[1], ",") {
			own[name] = parts[2]
		}
	}
	return own, nil
}

// check says what is missing, or nil.
func (h hierarchy) check() error {
	if h.Unified == "" {
		return errors.New("no version 2 control group tree is mounted")
	}
	if len(h.V1) > 0 {
		for _, c := range controllers {
			if h.V1[c] == "" {
				return fmt.Errorf("the controller %s is not mounted", c)
			}
		}
	}
	return nil
}

// prepare makes our parents.
func (h hierarchy) prepare() error {
	for _, dir := range h.parents() {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if len(h.V1) > 0 {
		return nil
	}
	for _, dir := range []string{filepath.Dir(h.Unified), h.Unified} {
		if err := write(dir, "cgroup.subtree_control", "+memory +pids +cpu"); err != nil {
			return fmt.Errorf("controllers cannot be enabled in %s: %w", dir, err)
		}
	}
	return nil
}

func (h hierarchy) parents() []string {
	dirs := []string{h.Unified}
	for _, c := range controllers {
		if d := h.V1[c]; d != "" {
			dirs = append(dirs, d)
		}
	}
	return dirs
}
