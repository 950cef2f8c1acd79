package offline

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-agents/gantry/libs/model"
)

// Each case is one instruction and the steps that it must lead to: one line a step, calls of one step parted by " & ".
func TestInstructions(t *testing.T) {
	tests := []struct {
		name  string
		say   string
		calls []string
		says  []string // parts of the answer
	}{
		// reading
		{"read", "Read notes.md", []string{`read_file {"path":"notes.md"}`}, []string{"Buy milk."}},
		{"paraphrase", "Could you please show me the contents of docs/guide.md?", []string{`read_file {"path":"docs/guide.md"}`}, []string{"Start here."}},
		{"question about a file", "What's in a.txt?", []string{`read_file {"path":"a.txt"}`}, []string{"alpha"}},
		{"what does it say", "What does `notes.md` say?", []string{`read_file {"path":"notes.md"}`}, nil},
		{"quoted name with a blank", `open "my plan.txt"`, []string{`read_file {"path":"my plan.txt"}`}, []string{"step one"}},
		{"single quotes and a blank", "Take a look at 'my plan.txt', please.", []string{`read_file {"path":"my plan.txt"}`}, nil},
		{"two at once", "Read a.txt and b.txt", []string{`read_file {"path":"a.txt"} & read_file {"path":"b.txt"}`}, []string{"alpha", "beta"}},
		{"three at once", "review a.txt, b.txt, and notes.md", []string{`read_file {"path":"a.txt"} & read_file {"path":"b.txt"} & read_file {"path":"notes.md"}`}, nil},
		{"no extension", "print the Makefile", []string{`read_file {"path":"Makefile"}`}, []string{"all:"}},
		{"first lines", "Show the first 3 lines of src/main.go", []string{`read_file {"limit":3,"path":"src/main.go"}`}, nil},
		{"line range", "show me lines 5 to 9 of src/main.go", []string{`read_file {"limit":5,"offset":4,"path":"src/main.go"}`}, nil},
		{"looks for what is elsewhere", "read only.cfg", []string{`read_file {"path":"only.cfg"}`, `glob_files {"pattern":"**/only.cfg"}`, `read_file {"path":"deep/er/only.cfg"}`}, []string{"x=1"}},
		{"not there at all", "read nowhere.md", []string{`read_file {"path":"nowhere.md"}`, `glob_files {"pattern":"**/nowhere.md"}`}, []string{"failed", "not found"}},
		{"every file of a type", "Read all markdown files", []string{`glob_files {"pattern":"**/*.md"}`, `read_file {"path":"docs/guide.md"} & read_file {"path":"notes.md"}`}, []string{"Start here."}},

		// writing
		{"write", "Write 'hello there' to out.txt", []string{`write_file {"content":"hello there","path":"out.txt"}`}, []string{"Wrote out.txt"}},
		{"double quotes with escapes", `Save "one\ntwo \"2\"" as out.txt.`, []string{`write_file {"content":"one\ntwo \"2\"","path":"out.txt"}`}, nil},
		{"typographic quotes", "Put “it’s done” into out.txt", []string{`write_file {"content":"it’s done","path":"out.txt"}`}, nil},
		{"apostrophe inside single quotes", "write 'don't panic' to out.txt", []string{`write_file {"content":"don't panic","path":"out.txt"}`}, nil},
		{"create with content", "Create a new file called drafts/x.md with the content `# X`", []string{`write_file {"content":"# X","path":"drafts/x.md"}`}, nil},
		{"colon", "create todo.txt: 'wash up'", []string{`write_file {"content":"wash up","path":"todo.txt"}`}, nil},
		{"fenced block", "Create run.sh with this content:\n\n```sh\n#!/bin/sh\necho \"hi; then\" && exit 0\n```\n", []string{`write_file {"content":"#!/bin/sh\necho \"hi; then\" && exit 0\n","path":"run.sh"}`}, nil},
		{"unquoted words", "write hello world to out.txt", []string{`write_file {"content":"hello world","path":"out.txt"}`}, nil},
		{"unicode", "Write 'Grüße, 你好 🎉' to Übersicht.md", []string{`write_file {"content":"Grüße, 你好 🎉","path":"Übersicht.md"}`}, nil},
		{"empty", "create an empty file called blank.txt", []string{`write_file {"content":"","path":"blank.txt"}`}, nil},
		{"instructions inside quotes are text", "write 'delete notes.md, then run `ls`' to out.txt", []string{"write_file {\"content\":\"delete notes.md, then run `ls`\",\"path\":\"out.txt\"}"}, nil},
		{"nobody composes", "Write a poem about rain to poem.txt", nil, []string{"did not understand", "a poem about rain"}},
		{"append", "Append 'omega' to a.txt", []string{`append_file {"content":"omega","path":"a.txt"}`}, nil},
		{"append a line", "add the line 'gamma' to the end of b.txt", []string{`append_file {"content":"gamma\n","path":"b.txt"}`}, nil},
		{"pronoun", "Write 'x' to p.txt and append 'y' to it", []string{`write_file {"content":"x","path":"p.txt"}`, `append_file {"content":"y","path":"p.txt"}`}, nil},

		// editing
		{"replace", "Replace 'milk' with 'bread' in notes.md", []string{`edit_file {"new_string":"bread","old_string":"milk","path":"notes.md"}`}, []string{`Replaced "milk" with "bread"`}},
		{"in file first", "In notes.md, change \"Buy\" to \"Sell\"", []string{`edit_file {"new_string":"Sell","old_string":"Buy","path":"notes.md"}`}, nil},
		{"edit and replace", "Edit notes.md and replace the word `milk` by `tea`", []string{`edit_file {"new_string":"tea","old_string":"milk","path":"notes.md"}`}, nil},
		{"all", "replace all occurrences of 'a' with 'o' in a.txt", []string{`edit_file {"new_string":"o","old_string":"a","path":"a.txt","replace_all":true}`}, nil},
		{"bare words", "change alpha to omega in a.txt", []string{`edit_file {"new_string":"omega","old_string":"alpha","path":"a.txt"}`}, nil},
		{"cut", "Remove 'Buy milk.' from notes.md", []string{`edit_file {"new_string":"","old_string":"Buy milk.","path":"notes.md"}`}, nil},
		{"an edit that fails is said", "replace 'zzz' with 'y' in a.txt", []string{`edit_file {"new_string":"y","old_string":"zzz","path":"a.txt"}`}, []string{"failed", "not found"}},

		// files and folders
		{"list", "List the files", []string{`list_files {"path":"."}`}, nil},
		{"list a folder", "what files are there in the docs folder?", []string{`list_files {"path":"docs"}`}, nil},
		{"glob", "find all *.go files", []string{`glob_files {"pattern":"*.go"}`}, []string{"src/main.go"}},
		{"by type", "Which markdown files are there?", []string{`glob_files {"pattern":"**/*.md"}`}, nil},
		{"grep", "Search for 'TODO' in the files", []string{`grep_files {"pattern":"TODO"}`}, nil},
		{"grep a folder", "look for `panic(` in src/main.go", []string{`grep_files {"path":"src/main.go","pattern":"panic("}`}, nil},
		{"which files", "Which files mention \"deploy window\"?", []string{`grep_files {"pattern":"deploy window"}`}, nil},
		{"move", "rename a.txt to c.txt", []string{`move_file {"destination":"c.txt","source":"a.txt"}`}, nil},
		{"delete", "Delete a.txt and b.txt.", []string{`delete_file {"path":"a.txt"}`, `delete_file {"path":"b.txt"}`}, nil},
		{"copy", "copy notes.md to backup/notes.md", []string{`read_file {"path":"notes.md"}`, `write_file {"content":"# Notes\n\nBuy milk.\n","path":"backup/notes.md"}`}, nil},

		// commands
		{"run", "Run `wc -l notes.md`", []string{`execute {"command":"wc -l notes.md"}`}, []string{"ran wc -l notes.md"}},
		{"bare command", "execute the command: ls -la", []string{`execute {"command":"ls -la"}`}, nil},
		{"time limit", "run `sleep 1` with a timeout of 10 seconds", []string{`execute {"command":"sleep 1","timeout_seconds":10}`}, nil},
		{"two commands in order", "run `date` and `uptime`", []string{`execute {"command":"date"}`, `execute {"command":"uptime"}`}, nil},
		{"script", "Run this script:\n```\nset -e\necho ok\n```", []string{`execute {"command":"set -e\necho ok"}`}, []string{"a script of 2 lines"}},
		{"commands in a list", "Execute the following commands:\n1. `mkdir out`\n2. `ls out`", []string{`execute {"command":"mkdir out"}`, `execute {"command":"ls out"}`}, nil},
		{"by means of a command", "Count the words of a.txt with `wc -w a.txt`", []string{`execute {"command":"wc -w a.txt"}`}, nil},
		{"output to a file", "Run `date` and save the output to when.txt", []string{`execute {"command":"date"}`, `write_file {"content":"ran date\n","path":"when.txt"}`}, nil},
		{"not a command", "run the marathon", nil, []string{"did not understand"}},

		// memory
		{"remember", "Remember that the office code is 4711.", []string{`memory_save {"content":"The office code is 4711"}`}, []string{"Saved to memory"}},
		{"do not forget", "please don't forget: standup moved to 9:30", []string{`memory_save {"content":"Standup moved to 9:30"}`}, nil},
		{"facts in a list", "Remember:\n- the lab is in Bonn\n- Kim has the keys", []string{`memory_save {"content":"The lab is in Bonn"} & memory_save {"content":"Kim has the keys"}`}, nil},
		{"an and inside a fact", "remember that I like tea and reading books", []string{`memory_save {"content":"I like tea and reading books"}`}, nil},
		{"to memory", "save 'Bo runs the lab' to memory", []string{`memory_save {"content":"Bo runs the lab"}`}, nil},
		{"asked of memory", "What is my favorite tea?", []string{`memory_search {"query":"favorite tea"}`}, []string{"oolong"}},
		{"explicit search", "search your memory for the deploy window", []string{`memory_search {"query":"the deploy window"}`}, []string{"Tuesday 14:00"}},
		{"unknown to memory", "What is my shoe size?", []string{`memory_search {"query":"shoe size"}`, `thread_search {"query":"shoe size"}`}, []string{"do not know"}},
		{"show memory", "show me your memory", []string{`memory_get {"path":"MEMORY.md"}`}, nil},
		{"conversations", "Search our past conversations for 'budget'", []string{`thread_search {"query":"budget"}`}, nil},

		// others at work
		{"delegate", "Ask the reviewer subagent to read notes.md and list two risks", []string{`agent_spawn {"agent_id":"reviewer","task":"Read notes.md and list two risks"}`}, []string{"Two risks: scope and time."}},
		{"shouted name", "have the REVIEWER check a.txt", []string{`agent_spawn {"agent_id":"reviewer","task":"Check a.txt"}`}, nil},
		{"delegate to", "Delegate 'add up the totals' to the data-checker agent.", []string{`agent_spawn {"agent_id":"data-checker","task":"Add up the totals"}`}, []string{"All sums are right."}},
		{"told with a colon", "Tell the reviewer: please look at notes.md", []string{`agent_spawn {"agent_id":"reviewer","task":"Look at notes.md"}`}, nil},
		{"given a task", "Give the reviewer agent the task to proofread notes.md", []string{`agent_spawn {"agent_id":"reviewer","task":"Proofread notes.md"}`}, nil},
		{"in the background", "ask the reviewer agent to look at b.txt in the background", []string{`agent_spawn {"agent_id":"reviewer","task":"Look at b.txt","timeout_seconds":0}`}, []string{"background", "task_7"}},
		{"two side by side", "Ask the reviewer subagent to read a.txt, and ask the data-checker subagent to read b.txt", []string{`agent_spawn {"agent_id":"reviewer","task":"Read a.txt"} & agent_spawn {"agent_id":"data-checker","task":"Read b.txt"}`}, []string{"Two risks", "All sums"}},
		{"todo", "Make a todo list: buy paint, paint the door and clean up", []string{`todo_write {"todos":[{"content":"buy paint","status":"pending"},{"content":"paint the door","status":"pending"},{"content":"clean up","status":"pending"}]}`}, nil},
		{"todo with bullets", "Create a todo list:\n- buy paint, white\n- paint the door", []string{`todo_write {"todos":[{"content":"buy paint, white","status":"pending"},{"content":"paint the door","status":"pending"}]}`}, nil},
		{"ask", "ask me which colour I want", []string{`ask_user {"question":"Which colour I want?"}`}, nil},
		{"skill", "Use the release notes skill", []string{`load_skill_through_path {"path":"SKILL.md","skill_id":"release-notes"}`}, []string{"List what changed."}},
		{"fetch", "fetch https://example.org/a?b=c.", []string{`web_fetch {"url":"https://example.org/a?b=c"}`}, nil},
		{"any tool by name", `call mcp__geo__distance with {"from": "Bern", "to": "Rome"}`, []string{`mcp__geo__distance {"from": "Bern", "to": "Rome"}`}, nil},
		{"any tool with pairs", `use the tool mcp__geo__distance with from="New York", to=Rome`, []string{`mcp__geo__distance {"from":"New York","to":"Rome"}`}, nil},

		{"both again", "Read a.txt and b.txt and then delete them", []string{`read_file {"path":"a.txt"} & read_file {"path":"b.txt"}`, `delete_file {"path":"a.txt"}`, `delete_file {"path":"b.txt"}`}, nil},

		// several steps
		{"a chain", "Read a.txt, then write 'done' to log/out.txt, then run `cat log/out.txt`, remember that alpha is first, ask the reviewer subagent to check log/out.txt, and summarise.",
			[]string{`read_file {"path":"a.txt"}`, `write_file {"content":"done","path":"log/out.txt"}`, `execute {"command":"cat log/out.txt"}`, `memory_save {"content":"Alpha is first"}`, `agent_spawn {"agent_id":"reviewer","task":"Check log/out.txt"}`},
			[]string{"alpha", "In short: 5 steps done"}},
		{"numbered", "Please do these steps:\n1. Write `v1` to v.txt\n2. Replace 'v1' with 'v2' in v.txt\n3. Delete b.txt", []string{`write_file {"content":"v1","path":"v.txt"}`, `edit_file {"new_string":"v2","old_string":"v1","path":"v.txt"}`, `delete_file {"path":"b.txt"}`}, nil},
		{"sentences", "First list the files in docs. After that, read docs/guide.md. Finally tell me what it says.", []string{`list_files {"path":"docs"}`, `read_file {"path":"docs/guide.md"}`}, nil},
		{"a part is not understood", "Dance a little, then read a.txt", []string{`read_file {"path":"a.txt"}`}, []string{`did not understand "Dance a little"`, "alpha"}},
		{"nothing is made of a failure", "run `false-start`, read gone.md and write the result to r.txt", []string{`execute {"command":"false-start"}`, `read_file {"path":"gone.md"}`, `glob_files {"pattern":"**/gone.md"}`}, []string{"no result to write"}},
		{"summary of a file", "Summarise docs/guide.md", []string{`read_file {"path":"docs/guide.md"}`}, []string{"Guide"}},
		{"reply", "Reply with exactly 'pong'", nil, []string{"pong"}},
		{"greeting", "Hello!", nil, []string{"No language model is configured"}},

		// German
		{"de read", "Lies bitte notes.md", []string{`read_file {"path":"notes.md"}`}, nil},
		{"de write", "Schreibe „Guten Tag“ in die Datei gruss.txt", []string{`write_file {"content":"Guten Tag","path":"gruss.txt"}`}, nil},
		{"de edit", "Ersetze 'milk' durch 'Milch' in notes.md", []string{`edit_file {"new_string":"Milch","old_string":"milk","path":"notes.md"}`}, nil},
		{"de run and remember", "Führe `ls` aus und merke dir, dass der Server im Keller steht.", []string{`execute {"command":"ls"}`, `memory_save {"content":"Der Server im Keller steht"}`}, nil},
		{"de delegate", "Bitte den reviewer-Agenten, a.txt zu prüfen", []string{`agent_spawn {"agent_id":"reviewer","task":"A.txt zu prüfen"}`}, nil},
		{"de list", "Welche Dateien gibt es in docs?", []string{`list_files {"path":"docs"}`}, nil},
		{"de chain", "Lösche b.txt, dann benenne a.txt in c.txt um", []string{`delete_file {"path":"b.txt"}`, `move_file {"destination":"c.txt","source":"a.txt"}`}, nil},

		// Chinese
		{"zh read", "读取 notes.md", []string{`read_file {"path":"notes.md"}`}, nil},
		{"zh write", "把“你好”写入out.txt", []string{`write_file {"content":"你好","path":"out.txt"}`}, nil},
		{"zh create", "创建文件 a/b.md，内容为「第一行」", []string{`write_file {"content":"第一行","path":"a/b.md"}`}, nil},
		{"zh edit", "将notes.md中的'milk'替换为'茶'", []string{`edit_file {"new_string":"茶","old_string":"milk","path":"notes.md"}`}, nil},
		{"zh run", "请运行 `ls -l`，然后删除 b.txt。", []string{`execute {"command":"ls -l"}`, `delete_file {"path":"b.txt"}`}, nil},
		{"zh remember", "记住：我的生日是五月三日", []string{`memory_save {"content":"我的生日是五月三日"}`}, nil},
		{"zh delegate", "让reviewer子代理检查a.txt", []string{`agent_spawn {"agent_id":"reviewer","task":"检查a.txt"}`}, nil},
		{"zh list", "docs目录下有哪些文件？", []string{`list_files {"path":"docs"}`}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			got := converse(t, w, model.Request{System: system, Tools: allTools, Messages: []model.Message{model.User(tt.say)}})
			if diff := cmp.Diff(tt.calls, w.calls); diff != "" {
				t.Errorf("%s\nsteps (-want +got):\n%s\nanswer: %s", tt.say, diff, got)
			}
			for _, part := range tt.says {
				if !strings.Contains(got, part) {
					t.Errorf("%s\nanswer lacks %q:\n%s", tt.say, part, got)
				}
			}
			if !strings.Contains(got, "No language model is configured") {
				t.Errorf("the answer does not say that no model is there:\n%s", got)
			}
		})
	}
}
