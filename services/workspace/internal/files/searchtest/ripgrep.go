package searchtest

import "github.com/gantry-agents/gantry/libs/fsops"

// Ripgrep returns the arguments by which ripgrep answers a search as a store does: files of hidden names are searched, ".git" is not, only .gitignore files exclude, and a line
// may end in CRLF. Lines of output have the path, line number, column and text.
func Ripgrep(req fsops.GrepRequest, glob string) []string {
	args := []string{"--no-config", "--no-heading", "--with-filename", "--line-number", "--column", "--color=never", "--crlf",
		"--hidden", "--no-ignore-dot", "--no-ignore-exclude", "--no-ignore-global", "--no-ignore-parent", "--no-require-git", "--no-messages"}
	if !req.Regex {
		args = append(args, "--fixed-strings")
	}
	if req.IgnoreCase {
		args = append(args, "--ignore-case")
	}
	if glob != "" {
		args = append(args, "--glob="+glob)
	}
	return append(args, "--glob=!.git/", "--regexp="+req.Pattern, ".")
}
