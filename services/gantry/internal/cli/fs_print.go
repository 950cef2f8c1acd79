package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
)

// batch runs fn with an output that is written in large pieces.
func (e *Env) batch(fn func(*Env) error) error {
	out := bufio.NewWriterSize(e.Out, 64<<10)
	inner := *e
	inner.Out = out
	return errors.Join(fn(&inner), out.Flush())
}

// Note prints a line beside the output, on the standard error.
func (e *Env) Note(format string, args ...any) {
	fmt.Fprintln(e.Err, "gantry:", oneLine(Printable(fmt.Sprintf(format, args...)), 1000))
}

// warnings prints the places that a listing or a search could not read. They make what was printed incomplete.
func (e *Env) warnings(list []string) {
	for _, w := range list {
		e.Note("not read: %s", w)
	}
}

// isTerminal says whether a person looks at what is written.
func isTerminal(w io.Writer) bool {
	if t, ok := w.(interface{ IsTerminal() bool }); ok {
		return t.IsTerminal()
	}
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// colours says whether output may be coloured.
func colours(w io.Writer) bool { return isTerminal(w) && os.Getenv("NO_COLOR") == "" }

// entry prints a file or directory: size, time, layer, path.
func (t *Target) entry(env *Env, e *fsv1.FileInfo) error {
	if t.JSON {
		return env.JSON(e)
	}
	env.Line("%10s  %16s  %-9s %s", entrySize(e), minuteText(e.GetModifyTime()), layerText(e), pathText(e))
	return nil
}

// longEntry adds the mode, the exact size and time, the author and the revision.
func (t *Target) longEntry(env *Env, e *fsv1.FileInfo) error {
	if t.JSON {
		return env.JSON(e)
	}
	size := fmt.Sprint(e.GetSizeBytes())
	if isDir(e) {
		size = "-"
	}
	env.Line("%04o  %12s  %20s  %-9s %-12s %-12s %s", e.GetMode(), size, secondText(e.GetModifyTime()), layerText(e), or(e.GetAuthor(), "-"), or(e.GetRevision(), "-"), pathText(e))
	return nil
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func isDir(e *fsv1.FileInfo) bool { return e.GetKind() == fsv1.FileKind_FILE_KIND_DIRECTORY }

func entrySize(e *fsv1.FileInfo) string {
	if isDir(e) {
		return "-"
	}
	return sizeText(e.GetSizeBytes())
}

// layerText names the layer; "+" says that a lower layer has the path too.
func layerText(e *fsv1.FileInfo) string {
	name := strings.ToLower(strings.TrimPrefix(e.GetLayer().String(), "LAYER_"))
	if e.GetShadows() {
		name += "+"
	}
	return name
}

func pathText(e *fsv1.FileInfo) string {
	path := strings.ReplaceAll(e.GetPath(), "\n", `\n`)
	if isDir(e) {
		path += "/"
	}
	return path
}

// sizeText shows a number of bytes, short.
func sizeText(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n), ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"} {
		if value /= 1024; value < 1023.95 {
			break
		}
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}

func minuteText(t *timestamppb.Timestamp) string { return timeText(t, "2006-01-02 15:04") }

func secondText(t *timestamppb.Timestamp) string { return timeText(t, "2006-01-02T15:04:05Z") }

func timeText(t *timestamppb.Timestamp, layout string) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().Format(layout)
}

// count is a number with its noun.
func count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "ch") {
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// text prints text of others as it is, but for what would steer a terminal.
func (e *Env) text(s string) { e.raw(Printable(s)) }

func (e *Env) raw(s string) { fmt.Fprint(e.Out, s) }
