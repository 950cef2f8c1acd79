package cli

import (
	"path"
	"strings"
	"unicode/utf8"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// localName checks that a path of a bucket can be a path below a directory of this machine. Names of a bucket are what users and models chose: they must not lead out
// of the directory, nor mean something else than a file, as devices do on Windows. Nothing is renamed in silence.
func localName(goos, name string) error {
	refuse := func(why string) error {
		return problem(errdefs.ErrInvalidArgument, "NAME_UNSUPPORTED", "%q can't be a file here: %s", name, why)
	}
	switch {
	case name == "" || name == ".":
		return refuse("it names no file")
	case strings.HasPrefix(name, "/"):
		return refuse("it is an absolute path")
	case strings.ContainsRune(name, 0):
		return refuse("it has a NUL byte")
	case strings.ContainsRune(name, utf8.RuneError) || !utf8.ValidString(name):
		return refuse("it is not UTF-8")
	}
	for _, part := range strings.Split(name, "/") {
		if part == "" || part == "." || part == ".." {
			return refuse("it leads out of the directory, or is not in its shortest form")
		}
		if goos != "windows" {
			continue
		}
		if why := windowsProblem(part); why != "" {
			return refuse(why)
		}
	}
	return nil
}

// windowsDevices are names that mean devices on Windows, with any extension.
var windowsDevices = map[string]bool{"CON": true, "PRN": true, "AUX": true, "NUL": true, "CONIN$": true, "CONOUT$": true}

func windowsProblem(part string) string {
	if i := strings.IndexFunc(part, func(r rune) bool { return r < 32 || strings.ContainsRune(`<>:"|?*\`, r) }); i >= 0 {
		return "Windows does not allow " + strings.Trim(part[i:i+1], " ") + " in a name"
	}
	if strings.HasSuffix(part, ".") || strings.HasSuffix(part, " ") {
		return "Windows drops a dot or space at the end of a name"
	}
	stem, _, _ := strings.Cut(part, ".")
	stem = strings.ToUpper(strings.TrimRight(stem, " "))
	port, isCom := strings.CutPrefix(stem, "COM")
	if !isCom {
		port, isCom = strings.CutPrefix(stem, "LPT")
	}
	if windowsDevices[stem] || isCom && utf8.RuneCountInString(port) == 1 && strings.Contains("0123456789¹²³", port) {
		return "it is a device on Windows"
	}
	return ""
}

// foldsCase says whether file systems of an operating system usually take "A" and "a" for one name.
func foldsCase(goos string) bool { return goos == "windows" || goos == "darwin" }

// bucketPath joins a directory of a bucket and a path below it.
func bucketPath(dir, below string) string {
	return strings.TrimPrefix(path.Join("/", dir, below), "/")
}
