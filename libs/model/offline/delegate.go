package offline

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	taskID  = regexp.MustCompile(`(?i)(?:"?task_?id"?\s*[:=]\s*"?|^task )([\w:.-]*\w)`)
	unready = regexp.MustCompile(`(?i)"?(?:status|state)"?\s*[:=]\s*"?(?:\w*_)?(?:promoted|running|pending|accepted|waiting|timeout)|^task \S+ (?:works|waits|goes on|is (?:pending|running|waiting))`)
	replyRE = regexp.MustCompile(`(?s)(?:^|\n)reply:\s*(.+)$`)
)

// maxAgents is the number of children that start in one step.
const maxAgents = 4

// delegate starts the children of one or several steps side by side and waits for those that are not done in time.
func (x *execution) delegate(actions []action) {
	for len(actions) > maxAgents {
		x.delegate(actions[:maxAgents])
		actions = actions[maxAgents:]
	}
	var calls []call
	var who []string
	for _, a := range actions {
		name := x.agent(a.slot("agent"))
		args := []arg{need(name, "agent_id", "agent", "name", "subagent"), need(x.order(a), "task", "prompt", "instruction", "message")}
		if a.background {
			args = append(args, maybe(0, "timeout_seconds", "timeout"))
		}
		c, ok := x.prepare(a, "ask subagents", spawnTool, args...)
		if !ok {
			return
		}
		calls, who = append(calls, c), append(who, name)
	}
	out, ok := x.do(calls...)
	if !ok {
		return
	}
	for i, o := range out {
		id := ""
		if m := taskID.FindStringSubmatch(x.raw(len(out), i)); m != nil {
			id = m[1]
			x.lastTask = id
		}
		switch {
		case o.failed:
			x.told("Asked "+who[i])(o, true)
		case actions[i].background:
			x.notes = append(x.notes, note{text: fmt.Sprintf("%s works in the background as %s.", who[i], id)})
		case id != "" && unready.MatchString(x.raw(len(out), i)):
			x.await(actions[i], who[i], id)
		default:
			x.last = reply(o.text)
			x.all[len(x.all)-len(out)+i] = x.last
			x.quoted(who[i]+" answered")(outcome{x.last, false}, true)
		}
		if x.stopped {
			return
		}
	}
}

// raw is the result of the i-th of the n latest calls as the tool gave it.
func (x *execution) raw(n, i int) string { return x.results[x.taken-n+i].Content }

// await waits once for a child that goes on as a task, and fetches what it has.
func (x *execution) await(a action, who, id string) {
	if x.offers(taskWaitTool) {
		if _, ok := x.one(a, "wait for tasks", taskWaitTool, need(id, "task_ids", "task_id", "id")); !ok {
			return
		}
	}
	if !x.offers(taskOutputTool) {
		x.notes = append(x.notes, note{text: fmt.Sprintf("%s is still at work as %s.", who, id)})
		return
	}
	o, ok := x.one(a, "read a task's output", taskOutputTool, need(id, "task_id", "id"))
	if ok {
		x.last = reply(o.text)
		x.quoted(who+" answered")(outcome{x.last, o.failed}, true)
	}
}

// reply is the child's text without the lines about the call.
func reply(s string) string {
	if m := replyRE.FindStringSubmatch(s); m != nil {
		return m[1]
	}
	return s
}

// agent is the id of a subagent as it is declared, whatever the case in which it was named.
func (x *execution) agent(name string) string {
	if id, ok := x.names.agents[fold(name)]; ok {
		return id
	}
	return strings.ReplaceAll(name, " ", "-")
}

// order is what the child is told.
func (x *execution) order(a action) string {
	return capital(strings.TrimSpace(strings.TrimRight(a.slot("task"), " .")))
}
