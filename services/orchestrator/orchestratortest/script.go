package orchestratortest

// Script is what the model of a tested orchestrator must play. Each case of the suite says a word that no other case says.
const Script = `
models:
  - {name: script}
  - {name: small, context_tokens: 3000}
turns:
  - {always: true, when: {system: "You compress the front"}, text: "## Intent: it was a long talk."}

  - {always: true, when: {user: "^hello"}, thinking: "somebody greets", text: "Hello to you, whoever you are, wherever you are.", piece: 5}
  - {always: true, when: {user: "^slow"}, text: "one two three four five six seven eight nine ten", piece: 5, interval: 40ms}
  - {always: true, when: {user: "^stuck", text: "instead"}, text: "As you wish."}
  - {always: true, when: {user: "^stuck"}, text: "I think and think", hang: true}
  - {always: true, when: {user: "^(and |instead)"}, text: "Taken in."}

  - {always: true, when: {user: "^keep", tool: write_file}, text: "It is kept."}
  - {always: true, when: {user: "^keep"}, calls: [{name: write_file, arguments: {path: kept.txt, content: "ink"}}]}
  - {always: true, when: {user: "^both", tool: write_file}, text: "Both are there."}
  - {always: true, when: {user: "^both"}, calls: [{name: write_file, arguments: {path: a.txt, content: "a"}}, {name: write_file, arguments: {path: b.txt, content: "b"}}]}
  - {always: true, when: {user: "^peek", tool: read_file}, text: "I have looked."}
  - {always: true, when: {user: "^peek"}, calls: [{name: read_file, arguments: {path: nowhere.txt}}]}

  - {always: true, when: {user: "^ask me", result: "tea|coffee"}, text: "Good choice."}
  - {always: true, when: {user: "^ask me", tool: ask_user}, text: "No answer, then."}
  - {always: true, when: {user: "^ask me"}, calls: [{name: ask_user, arguments: {question: "What to drink?", choices: [tea, coffee]}}]}
  - {always: true, when: {user: "^beep", tool: client__beep}, text: "It beeped."}
  - {always: true, when: {user: "^beep"}, calls: [{name: client__beep, arguments: {times: 2}}]}

  - {always: true, when: {user: "^wrong", tool: no_such_tool}, text: "I see."}
  - {always: true, when: {user: "^wrong"}, calls: [{name: no_such_tool}, {name: write_file, raw_arguments: '{"path":"a'}, {name: write_file, raw_arguments: '[]'}, {name: write_file, arguments: {path: 7}}]}
  - {always: true, when: {user: "^twice", tool: write_file}, text: "Once."}
  - {always: true, when: {user: "^twice"}, calls: [{id: same, name: write_file, arguments: {path: twin.txt, content: x}}, {id: same, name: write_file, arguments: {path: twin.txt, content: x}}]}
  - {always: true, when: {user: "^stubborn"}, calls: [{name: read_file, arguments: {path: nowhere.txt}}]}
  - {always: true, when: {user: "^busybody", text: "limit of this run"}, text: "This is how far I came."}
  - {always: true, when: {user: "^busybody"}, calls: [{name: todo_write, arguments: {todos: [{content: more}]}}]}
  - {always: true, when: {user: "^mute", text: "answer was empty"}, text: "Sorry."}
  - {always: true, when: {user: "^mute"}, thinking: "hm", text: " "}
  - {always: true, when: {user: "^object"}, text: '{"colour": "blue"}'}
  - {always: true, when: {user: "^broken"}, error: {kind: auth, message: "no key"}}
  - {times: 1, when: {user: "^shaky"}, text: "half an ans", error: {kind: unavailable}}
  - {always: true, when: {user: "^shaky"}, text: "A whole answer."}
  - {always: true, when: {user: "^dear", tool: todo_write}, text: "never said"}
  - {always: true, when: {user: "^dear"}, tokens: [500, 500], calls: [{name: todo_write, arguments: {todos: [{content: spend}]}}]}

  - {always: true, when: {user: "^delegate", tool: agent_spawn}, text: "The helper is done."}
  - {always: true, when: {user: "^delegate"}, calls: [{name: agent_spawn, arguments: {agent_id: general-purpose, task: "chore: keep a note", label: helper, timeout_seconds: 20}}]}
  - {always: true, when: {user: "^chore", tool: write_file}, text: "The note is kept."}
  - {always: true, when: {user: "^chore"}, calls: [{name: write_file, arguments: {path: note.txt, content: "n"}}]}
  - {always: true, when: {user: "^background", text: "Background task"}, text: "The result has come."}
  - {always: true, when: {user: "^background", tool: agent_spawn}, text: "It works in the background."}
  - {always: true, when: {user: "^background"}, calls: [{name: agent_spawn, arguments: {agent_id: general-purpose, task: "chore: keep a note", timeout_seconds: 0}}]}

  - {always: true, when: {user: "^what did"}, text: "I do not know what was said."}
`
