package offline

import (
	"fmt"
	"regexp"
	"strings"
)

// maxReadAll bounds the files that one "read all" opens.
const maxReadAll = 8

var missing = regexp.MustCompile(`(?i)not[ _]found|no such|does not exist|doesn't exist`)

// read opens files; one that is not there under its bare name is looked for.
func (x *execution) read(a action, paths []string) []string {
	var calls []call
	for _, p := range paths {
		args := []arg{need(p, "path", "file_path", "file", "filename")}
		if n := number(a, "count"); n > 0 {
			args = append(args, maybe(n, "limit", "max_lines", "lines"))
		}
		if from := number(a, "from"); from > 0 {
			args = append(args, maybe(from-1, "offset", "start")) // offsets of lines begin at 0
			args = append(args, maybe(max(number(a, "to"), from)-from+1, "limit", "max_lines", "lines"))
		}
		c, ok := x.prepare(a, "read files", readTool, args...)
		if !ok {
			return nil
		}
		calls = append(calls, c)
	}
	out, ok := x.do(calls...)
	if !ok {
		return nil
	}
	var texts []string
	for i, o := range out {
		p := paths[i]
		if o.failed && missing.MatchString(o.text) && !strings.Contains(p, "/") && x.offers(globTool) {
			if p, o, ok = x.lookFor(a, p, o); !ok {
				return nil
			}
		}
		x.quoted("Read "+p)(o, true)
		if !o.failed {
			texts = append(texts, o.text)
		}
	}
	return texts
}

// lookFor searches the workspace for a file and reads the first of that name.
func (x *execution) lookFor(a action, name string, before outcome) (string, outcome, bool) {
	found, ok := x.one(a, "find files", globTool, need("**/"+name, "pattern", "glob"))
	if !ok {
		return name, before, false
	}
	paths := listed(found.text)
	if found.failed || len(paths) == 0 {
		x.broken = true
		return name, before, true
	}
	o, ok := x.one(a, "read files", readTool, need(paths[0], "path", "file_path", "file", "filename"))
	x.lastPath = paths[0]
	return paths[0], o, ok
}

var (
	listedPath = regexp.MustCompile(`^(?:\[\w+\]\s+|[-*]\s+)?(.+?)(?:\s+\(\d[^)]*\)|\t.*)?$`)
	jsonPath   = regexp.MustCompile(`"path"\s*:\s*"([^"]+)"`)
)

// listed reads the paths of a listing: one a line, whatever stands around them, or the "path" fields of JSON.
func listed(text string) []string {
	var out []string
	if trimmed := strings.TrimSpace(text); strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[{") {
		for _, m := range jsonPath.FindAllStringSubmatch(trimmed, -1) {
			out = append(out, m[1])
		}
		return out
	}
	for _, l := range strings.Split(text, "\n") {
		m := listedPath.FindStringSubmatch(strings.TrimSpace(l))
		if m == nil || strings.HasSuffix(m[1], "/") || strings.HasSuffix(m[1], ":") || !strings.Contains(m[1], ".") && !strings.Contains(m[1], "/") || strings.HasPrefix(strings.ToLower(m[1]), "no ") {
			continue
		}
		out = append(out, m[1])
	}
	return out
}

func (x *execution) readAll(a action) {
	p := "**/*"
	if a.has("type") || a.has("glob") {
		p = pattern(a)
	}
	o, ok := x.one(a, "find files", globTool, need(p, "pattern", "glob"), x.under(a))
	if !ok {
		return
	}
	paths := listed(o.text)
	if o.failed || len(paths) == 0 {
		x.quoted("Files like "+p)(o, true)
		return
	}
	if len(paths) > maxReadAll {
		x.notes = append(x.notes, note{text: fmt.Sprintf("%d files match %s; I read the first %d.", len(paths), p, maxReadAll)})
		paths = paths[:maxReadAll]
	}
	x.read(action{clause: a.clause, lits: a.lits}, paths)
}

func (x *execution) summary(a action) {
	if a.has("text") {
		x.notes = append(x.notes, note{text: "Summary by headline:", quote: Summarise(a.slot("text"), maxQuote)})
		return
	}
	paths := x.paths(a)
	if a.has("path") {
		paths = []string{x.path(a, "path")}
	}
	before := len(x.notes)
	texts := x.read(a, paths)
	if len(texts) == 0 {
		return
	}
	short := Summarise(strings.Join(texts, "\n\n"), maxQuote)
	x.notes = append(x.notes[:before], note{text: "Summary by headline of " + strings.Join(paths, ", ") + ":", quote: short})
	if a.has("path2") {
		x.put(a, a.slot("path2"), short+"\n")
		return
	}
	x.last = short
}

// content is the text that is to be written; it is absent when it depends on something that failed.
func (x *execution) content(a action) (string, bool) {
	raw := strings.TrimSpace(a.slots["text"])
	if _, ok := a.lits.only(raw); !ok && raw != "" {
		isSummary := summaryRE.MatchString(raw)
		if isSummary || resultRE.MatchString(raw) {
			if x.broken || len(x.all) == 0 {
				x.fail("I did not write %s: there is no result to write.", raw)
				return "", false
			}
			if isSummary {
				return Summarise(strings.Join(x.all, "\n\n"), maxQuote) + "\n", true
			}
			return x.last, true
		}
	}
	return a.slot("text"), true
}

func (x *execution) write(a action) {
	p := x.path(a, "path")
	if text, ok := x.content(a); ok {
		x.put(a, p, text)
	}
}

func (x *execution) put(a action, p, text string) {
	x.told("Wrote " + p)(x.one(a, "write files", writeTool, need(p, "path", "file_path", "file", "filename"), need(text, "content", "text", "contents")))
	x.lastPath = p
}

var aLine = regexp.MustCompile(`(?i)\b(?:lines?|zeilen?|bullet|entry|eintrag)\b|行`)

func (x *execution) append(a action) {
	p := x.path(a, "path")
	text, ok := x.content(a)
	if !ok {
		return
	}
	if aLine.MatchString(a.clause) && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	x.told("Appended to " + p)(x.one(a, "append to files", appendTool, need(p, "path", "file_path", "file", "filename"), need(text, "content", "text")))
}

func (x *execution) edit(a action) {
	p := x.path(a, "path")
	from, to := a.slot("old"), a.slot("new")
	all := a.has("all") || a.has("all2") || a.has("all3")
	args := []arg{need(p, "path", "file_path", "file", "filename")}
	t, _ := x.tools.find(editTool...)
	if list, ok := t.property([]string{"edits", "replacements"}); ok && t.closed {
		args = append(args, need([]any{t.props[list].Items.or().object(map[string]any{
			"oldstring": from, "oldtext": from, "old": from, "newstring": to, "newtext": to, "new": to, "replaceall": all,
		})}, list))
	} else {
		args = append(args, need(from, "old_string", "old_text", "old", "old_str", "search"), need(to, "new_string", "new_text", "new", "new_str", "replace"))
	}
	if all {
		args = append(args, maybe(true, "replace_all", "all"))
	}
	x.told(fmt.Sprintf("Replaced %q with %q in %s", from, to, p))(x.one(a, "edit files", editTool, args...))
}

func (x *execution) copy(a action) {
	from, to := x.path(a, "path"), a.slot("path2")
	o, ok := x.one(a, "read files", readTool, need(from, "path", "file_path", "file", "filename"))
	if !ok {
		return
	}
	if o.failed {
		x.told("Copied "+from+" to "+to)(o, true)
		return
	}
	x.told("Copied " + from + " to " + to)(x.one(a, "write files", writeTool, need(to, "path", "file_path", "file", "filename"), need(o.text, "content", "text", "contents")))
	x.lastPath = to
}

func (x *execution) grep(a action) {
	q := strings.Trim(a.slot("query"), " .?")
	args := []arg{need(q, "pattern", "query", "text")}
	where := ""
	if a.has("path") {
		where = x.path(a, "path")
		if wildcard.MatchString(where) {
			args = append(args, maybe(where, "glob", "include"))
		} else {
			args = append(args, maybe(where, "path", "dir", "directory"))
		}
		where = " in " + where
	}
	x.quoted(fmt.Sprintf("Searched for %q%s", q, where))(x.one(a, "search files", grepTool, args...))
}

// run executes one command, or several in order.
func (x *execution) run(a action) {
	raw := strings.TrimSpace(a.slots["cmd"])
	var commands []string
	if cmdList.MatchString(raw) {
		for _, r := range raw {
			if l, ok := a.lits.at(r); ok {
				commands = append(commands, l.text)
			}
		}
	} else {
		commands = []string{a.slot("cmd")}
	}
	for _, c := range commands {
		c = strings.TrimSpace(c)
		args := []arg{need(c, "command", "cmd", "script")}
		if n := number(a, "secs"); n > 0 {
			args = append(args, maybe(n, "timeout_seconds", "timeout"))
		}
		x.quoted("Ran " + code(c))(x.one(a, "run commands", runTool, args...))
	}
}

// code writes a command so that it can be told from the text around it.
func code(c string) string {
	if strings.Contains(c, "\n") {
		return fmt.Sprintf("a script of %d lines", strings.Count(c, "\n")+1)
	}
	return "`" + c + "`"
}
