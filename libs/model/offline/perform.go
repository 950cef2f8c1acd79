package offline

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// perform goes through the actions of an instruction.
func (x *execution) perform(actions []action) {
	for i := 0; i < len(actions) && !x.stopped; i++ {
		if v := actions[i].verb; v == doIfWorks && x.broken || v == doIfFails && !x.broken {
			i++ // the step that hangs on it
			if i < len(actions) {
				x.notes = append(x.notes, note{text: fmt.Sprintf("Left out %q, as the condition did not hold.", actions[i].clause)})
			}
			continue
		}
		if actions[i].verb == doDelegate { // children work side by side
			n := i + 1
			for n < len(actions) && actions[n].verb == doDelegate {
				n++
			}
			x.delegate(actions[i:n])
			i = n - 1
			continue
		}
		x.step(actions[i])
	}
}

func (x *execution) step(a action) {
	for _, slot := range []string{"path", "paths"} {
		said := strings.TrimSpace(a.slots[slot])
		if pronoun.MatchString(said) && x.lastPath == "" || plural.MatchString(said) && len(x.lastPaths) == 0 || slot == "path" && a.verb == doEdit && a.slots[slot] == "" && x.lastPath == "" {
			x.fail("I do not know which file %q means.", a.clause)
			return
		}
	}
	switch a.verb {
	case doRead:
		x.read(a, x.paths(a))
	case doReadAll:
		x.readAll(a)
	case doSummary:
		x.summary(a)
	case doWrite:
		x.write(a)
	case doAppend:
		x.append(a)
	case doEdit, doCut:
		x.edit(a)
	case doCopy:
		x.copy(a)
	case doMove:
		from, to := x.path(a, "path"), a.slot("path2")
		x.told(fmt.Sprintf("Moved %s to %s", from, to))(x.one(a, "move files", moveTool, need(from, "source", "from", "path", "old_path", "src"), need(to, "destination", "to", "new_path", "target", "dst")))
		x.lastPath = to
	case doDelete:
		for _, p := range x.paths(a) {
			x.told("Deleted " + p)(x.one(a, "delete files", deleteTool, need(p, "path", "file_path", "file")))
		}
	case doList:
		dir := x.dir(a)
		x.quoted("Files in " + dir)(x.one(a, "list files", listTool, need(dir, "path", "dir", "directory")))
	case doGlob:
		p := pattern(a)
		x.quoted("Files like " + p)(x.one(a, "find files", globTool, need(p, "pattern", "glob"), x.under(a)))
	case doGrep:
		x.grep(a)
	case doRun:
		x.run(a)
	case doFetch:
		x.quoted("Fetched " + a.slot("url"))(x.one(a, "fetch pages", fetchTool, need(a.slot("url"), "url")))
	case doSkill:
		x.skill(a)
	case doTool:
		x.tool(a)
	default:
		x.stepAside(a)
	}
}

// stepAside is the rest of step: what touches no files.
func (x *execution) stepAside(a action) {
	switch a.verb {
	case doRemember:
		x.remember(a)
	case doRecall:
		x.recall(a)
	case doQuestion:
		x.question(a)
	case doMemoryGet:
		x.memory(a)
	case doThreads:
		q := query(a)
		x.found(q, "earlier conversations")(x.one(a, "search conversations", threadTool, need(q, "query", "pattern", "text")))
	case doThreadList:
		x.quoted("Conversations")(x.one(a, "list conversations", threadListTool))
	case doAgentList:
		x.quoted("Subagents")(x.one(a, "list subagents", agentListTool))
	case doTaskList:
		x.quoted("Tasks")(x.one(a, "list tasks", taskListTool))
	case doTaskOutput:
		id := x.task(a)
		if id == "" {
			x.report = true // its output is that of what was just done
			return
		}
		x.quoted("Output of " + id)(x.one(a, "read a task's output", taskOutputTool, need(id, "task_id", "id")))
	case doTaskWait:
		x.lastTask = x.task(a)
		x.quoted("Waited for " + x.lastTask)(x.one(a, "wait for tasks", taskWaitTool, need(x.lastTask, "task_ids", "task_id", "id")))
	case doTaskCancel:
		x.told("Cancelled " + x.task(a))(x.one(a, "cancel tasks", taskCancelTool, need(x.task(a), "task_id", "id")))
	case doTodo:
		x.todo(a)
	case doAsk:
		x.ask(a)
	case doPlanEnter:
		x.told("Entered plan mode")(x.one(a, "enter plan mode", []string{"plan_enter"}))
	case doPlanExit:
		x.told("Left plan mode")(x.one(a, "leave plan mode", []string{"plan_exit"}))
	case doPlanWrite:
		x.told("Wrote the plan")(x.one(a, "write a plan", []string{"plan_write"}, need(a.slot("text"), "content", "plan", "text")))
	case doReply:
		x.notes = append(x.notes, note{text: a.slot("text"), answer: true})
	case doReport:
		x.report = true
	case doMkdir:
		p := x.path(a, "path")
		x.told("Made the directory " + p)(x.one(a, "make directories", runTool, need("mkdir -p -- '"+strings.ReplaceAll(p, "'", `'\''`)+"'", "command", "cmd", "script")))
	case doStatement:
		x.stated = a.clause
		x.say("You told me: %s", strings.TrimSpace(a.clause))
	case doIfWorks, doIfFails:
	default:
		x.fail("I did not understand %q.", a.clause)
	}
}

// told notes a finished call in one line; quoted notes what it gave as well.
func (x *execution) told(text string) func(outcome, bool) {
	return func(o outcome, ok bool) {
		switch {
		case !ok:
		case o.failed:
			x.notes = append(x.notes, note{text: text + " - that failed", quote: o.text, failed: true})
		default:
			x.notes = append(x.notes, note{text: text + "."})
		}
	}
}

func (x *execution) quoted(text string) func(outcome, bool) {
	return func(o outcome, ok bool) {
		switch {
		case !ok:
		case o.failed:
			x.told(text)(o, ok)
		default:
			x.notes = append(x.notes, note{text: text + ":", quote: o.text})
		}
	}
}

func (x *execution) fail(format string, args ...any) {
	x.notes = append(x.notes, note{text: fmt.Sprintf(format, args...), failed: true})
}

// path is the file of a slot; "it" is the one that was last spoken of.
func (x *execution) path(a action, slot string) string {
	p := a.slot(slot)
	if (p == "" || pronoun.MatchString(p)) && x.lastPath != "" {
		return x.lastPath
	}
	x.lastPath = p
	return p
}

// paths lists the files of the slot "paths".
func (x *execution) paths(a action) []string {
	if !a.has("paths") {
		return []string{x.path(a, "path")}
	}
	raw := a.slots["paths"]
	if plural.MatchString(strings.TrimSpace(raw)) {
		return x.lastPaths
	}
	if pronoun.MatchString(strings.TrimSpace(raw)) {
		return []string{x.path(a, "paths")}
	}
	var out []string
	for _, m := range pathItem.FindAllString(raw, -1) {
		for _, w := range []string{"以及", "和", "与", "及", "文件"} {
			m = strings.TrimPrefix(m, w)
		}
		out = append(out, a.lits.expand(m, func(l literal) string { return l.text }))
	}
	if len(out) > 0 {
		x.lastPath, x.lastPaths = out[len(out)-1], out
	}
	return out
}

// A name in a Chinese sentence may begin with Han characters, of which these are words of the sentence.
var pathItem = regexp.MustCompile(`\p{Han}*` + lit)

// dir is the directory of a slot, "." for the workspace itself.
func (x *execution) dir(a action) string {
	d := a.slot("dir")
	switch fold(d) {
	case "", "workspace", "here", "there", "arbeitsbereich", "currentdirectory", "currentfolder", "rootdirectory", "rootfolder", "workingdirectory", "workingfolder", "thisdirectory", "thisfolder", "topdirectory", "topfolder":
		return "."
	}
	return d
}

// under is the optional directory of a search.
func (x *execution) under(a action) arg {
	if d := x.dir(a); a.has("dir") && d != "." {
		return maybe(d, "path", "dir", "directory")
	}
	return arg{names: []string{"\x00"}, optional: true}
}

var endings = map[string]string{
	"markdown": "*.md", "text": "*.txt", "golang": "*.go", "python": "*.py", "yaml": "*.{yaml,yml}", "yml": "*.{yaml,yml}",
	"javascript": "*.js", "typescript": "*.ts", "rust": "*.rs", "shell": "*.sh", "image": "*.{png,jpg,jpeg,gif,webp,svg}",
}

// pattern is the file pattern that the clause asks for.
func pattern(a action) string {
	switch {
	case a.has("type"):
		t := strings.ToLower(a.slot("type"))
		if p, ok := endings[t]; ok {
			return "**/" + p
		}
		return "**/*." + t
	case a.has("ext"):
		return "**/*." + strings.TrimPrefix(strings.TrimPrefix(a.slot("ext"), "*"), ".")
	case a.has("path"):
		return "**/" + path.Base(a.slot("path"))
	}
	return a.slot("glob")
}

// task is the task of a slot; "it" is the one that was last started.
func (x *execution) task(a action) string {
	id := a.slot("id")
	if (id == "" || pronoun.MatchString(id)) && x.lastTask != "" {
		return x.lastTask
	}
	return id
}

// number reads a slot of digits.
func number(a action, slot string) int {
	n, err := strconv.Atoi(a.slot(slot))
	if err != nil {
		return 0
	}
	return n
}
