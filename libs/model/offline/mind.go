package offline

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// remember saves what is to be known later.
func (x *execution) remember(a action) {
	items := a.items
	if len(items) == 0 {
		raw := strings.TrimSpace(a.slots["fact"])
		fact := a.slot("fact")
		if resultRE.MatchString(raw) {
			if x.stated != "" {
				fact = x.stated
			} else if x.broken || len(x.all) == 0 {
				x.fail("I saved nothing: there is no result to remember.")
				return
			}
			if x.stated == "" {
				fact = Summarise(x.last, maxFact)
			}
			x.stated = ""
		}
		items = []string{tidy(fact)}
	}
	t, _ := x.tools.find(saveTool...)
	if list, ok := t.property([]string{"facts"}); ok && t.closed && t.props[list].is("array") {
		x.told("Saved to memory: " + strings.Join(items, "; "))(x.one(a, "save to memory", saveTool, need(items, "facts")))
		return
	}
	var calls []call
	for _, it := range items {
		c, ok := x.prepare(a, "save to memory", saveTool, need(it, "content", "text", "fact", "facts"))
		if !ok {
			return
		}
		calls = append(calls, c)
	}
	if out, ok := x.do(calls...); ok {
		for i, o := range out {
			x.told("Saved to memory: "+items[i])(o, true)
		}
	}
}

// tidy makes a fact of a phrase: one line, no full stop, a capital letter in front.
func tidy(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	s = strings.TrimRight(s, " .!;。！；")
	return capital(s)
}

func capital(s string) string {
	if s == "" || hasHan(s[:min(3, len(s))]) {
		return s
	}
	r := []rune(s)
	if len(r) > 1 && isWord(r[0]) {
		return strings.ToUpper(string(r[0])) + string(r[1:])
	}
	return s
}

// query is the words to search for.
func query(a action) string {
	q := strings.Trim(a.slot("query"), " .?？。!")
	for _, w := range []string{"the word ", "the topic ", "the topic of ", "mentions of "} {
		q = strings.TrimPrefix(q, w)
	}
	return q
}

// recall looks into memory on purpose: by the tool, and in what the context holds already.
func (x *execution) recall(a action) {
	q := query(a)
	if x.offers(searchTool) {
		o, ok := x.one(a, "search memory", searchTool, need(q, "query", "text", "pattern"))
		if !ok {
			return
		}
		if !o.failed {
			if line, ok := best(q, lines(o.text)); ok {
				x.say("From memory: %s", line)
				return
			}
		}
	}
	if line, ok := best(q, x.context.lines); ok {
		x.say("From memory: %s", line)
		return
	}
	x.say("I know nothing about %s.", q)
}

// question answers from what is known: the context first, then the tools that search.
func (x *execution) question(a action) {
	q := a.lits.unmask(a.slots["query"])
	if line, ok := best(q, x.context.lines); ok {
		x.say("From memory: %s", line)
		return
	}
	words := strings.Join(subject(q), " ")
	if words == "" {
		x.fail("I cannot answer %q without a language model.", a.clause)
		return
	}
	for _, s := range []struct {
		tools []string
		what  string
	}{{searchTool, "memory"}, {threadTool, "an earlier conversation"}} {
		if !x.offers(s.tools) {
			continue
		}
		o, ok := x.one(a, "search", s.tools, need(words, "query", "text", "pattern"))
		if !ok {
			return
		}
		if line, ok := best(q, lines(o.text)); ok && !o.failed {
			x.say("From "+s.what+": %s", line)
			return
		}
	}
	x.say("I do not know: nothing that I can search says anything about %q.", words)
}

func (x *execution) say(format string, args ...any) {
	x.notes = append(x.notes, note{text: fmt.Sprintf(format, args...), answer: true})
}

// found notes the outcome of a search, with the best line first if there is one.
func (x *execution) found(q, where string) func(outcome, bool) {
	return func(o outcome, ok bool) {
		if ok && !o.failed {
			if line, hit := best(q, lines(o.text)); hit {
				x.say("From %s: %s", where, line)
				return
			}
		}
		x.quoted(fmt.Sprintf("Searched %s for %q", where, q))(o, ok)
	}
}

func (x *execution) memory(a action) {
	p := "MEMORY.md"
	if a.has("path") {
		p = a.slot("path")
	}
	tools := memoryTool
	if !x.offers(tools) {
		tools = readTool
	}
	x.quoted("Memory (" + p + ")")(x.one(a, "read memory", tools, need(p, "path", "file_path", "file")))
}

var (
	itemCut = regexp.MustCompile(`(?i),? and |, |; ?|、|，`)
	itemNo  = regexp.MustCompile(`^\(?\d+[.)]\s*`)
)

func (x *execution) todo(a action) {
	items := a.items
	if len(items) == 0 {
		for _, part := range itemCut.Split(a.slots["items"], -1) {
			if part = strings.Trim(a.lits.value(itemNo.ReplaceAllString(strings.TrimSpace(part), "")), " ."); part != "" {
				items = append(items, part)
			}
		}
	}
	t, _ := x.tools.find(todoTool...)
	value := any(items)
	if name, ok := t.property([]string{"todos", "items", "tasks"}); ok && t.closed {
		if item := t.props[name].Items.or(); len(item.Properties) > 0 {
			list := make([]any, len(items))
			for i, it := range items {
				list[i] = item.object(map[string]any{
					"content": it, "title": it, "text": it, "task": it, "description": it, "subject": it,
					"status": item.Properties["status"].oneOf("pending", "todo", "open"), "state": item.Properties["state"].oneOf("pending", "todo", "open"),
					"id": fmt.Sprint(i + 1), "priority": item.Properties["priority"].oneOf("medium", "normal"),
				})
			}
			value = list
		}
	}
	x.told(fmt.Sprintf("Wrote a list of %d items", len(items)))(x.one(a, "keep a task list", todoTool, need(value, "todos", "items", "tasks")))
}

// oneOf is the first word that the property's list of values has; without a list, the first word.
func (p property) oneOf(words ...string) any {
	for _, w := range words {
		for _, e := range p.Enum {
			if s, ok := e.(string); ok && fold(s) == fold(w) {
				return s
			}
		}
	}
	if len(p.Enum) > 0 {
		return p.Enum[0]
	}
	return words[0]
}

func (x *execution) ask(a action) {
	q := strings.TrimRight(strings.TrimSpace(a.slot("question")), ".?？ ")
	o, ok := x.one(a, "ask you", askTool, need(capital(q)+"?", "question", "prompt", "text", "message"))
	x.quoted("You answered")(o, ok)
}

// skill loads the text of a skill. The rules cannot follow it; they carry out the step that was named with it.
func (x *execution) skill(a action) {
	name := a.slot("skill")
	if id, ok := x.names.skills[fold(name)]; ok {
		name = id
	}
	o, ok := x.one(a, "load skills", skillTool, need(name, "skill_id", "skill", "name"), maybe("SKILL.md", "path", "file"))
	if !ok {
		return
	}
	x.quoted("Loaded the skill "+name)(outcome{Summarise(o.text, maxFact), o.failed}, true)
	if o.failed || !a.has("rest") {
		return
	}
	for _, next := range parse(a.lits.unmask(a.slots["rest"]), x.names) {
		if next.verb == doUnknown {
			x.fail("To apply it (%s) takes a language model.", next.clause)
			continue
		}
		x.step(next)
	}
}

var pair = regexp.MustCompile(`([A-Za-z_]\w*)\s*(?:=|:)\s*(` + lit + `|[^\s,]+)`)

// tool calls a tool by its name with the arguments that were given.
func (x *execution) tool(a action) {
	name := x.names.tools[fold(a.slot("tool"))]
	t := x.tools[name]
	raw := strings.TrimSpace(a.slots["args"])
	c := call{name: name}
	if l, ok := a.lits.only(raw); ok && l.kind != litQuoted && json.Valid([]byte(l.text)) {
		c.args = json.RawMessage(l.text)
	} else {
		var args []arg
		for _, m := range pair.FindAllStringSubmatch(raw, -1) {
			args = append(args, need(a.lits.value(m[2]), m[1]))
		}
		if len(args) == 0 && raw != "" {
			args = append(args, need(a.slot("args"), "input", "query", "text"))
		}
		bound, lacks := t.bind(a.clause, args...)
		if lacks != "" {
			x.fail("I cannot call %s: it needs %q.", name, lacks)
			return
		}
		c.args = bound
	}
	if out, ok := x.do(c); ok {
		x.quoted("Called "+name)(out[0], true)
	}
}
