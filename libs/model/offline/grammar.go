package offline

import (
	"regexp"
	"strings"
)

// verb is what an instruction asks for.
type verb string

// The verbs. What each does is in perform.go.
const (
	doRead       verb = "read"
	doReadAll    verb = "read all"
	doWrite      verb = "write"
	doAppend     verb = "append"
	doEdit       verb = "edit"
	doCut        verb = "cut"
	doList       verb = "list"
	doGlob       verb = "glob"
	doGrep       verb = "grep"
	doMove       verb = "move"
	doCopy       verb = "copy"
	doDelete     verb = "delete"
	doRun        verb = "run"
	doRemember   verb = "remember"
	doRecall     verb = "recall"
	doMemoryGet  verb = "memory get"
	doThreads    verb = "threads"
	doThreadList verb = "thread list"
	doDelegate   verb = "delegate"
	doAgentList  verb = "agent list"
	doTaskList   verb = "task list"
	doTaskOutput verb = "task output"
	doTaskWait   verb = "task wait"
	doTaskCancel verb = "task cancel"
	doTodo       verb = "todo"
	doAsk        verb = "ask"
	doSkill      verb = "skill"
	doFetch      verb = "fetch"
	doTool       verb = "tool"
	doPlanEnter  verb = "plan enter"
	doPlanExit   verb = "plan exit"
	doPlanWrite  verb = "plan write"
	doMkdir      verb = "mkdir"
	doIfWorks    verb = "if works"
	doIfFails    verb = "if fails"
	doReply      verb = "reply"
	doReport     verb = "report"
	doSummary    verb = "summary"
	doStatement  verb = "statement"
	doQuestion   verb = "question"
	doUnknown    verb = "unknown"
)

// swallows says which verbs take whole phrases, so that a mere "and" inside one does not end it.
var swallows = map[verb]bool{doRemember: true, doDelegate: true, doAsk: true, doTodo: true, doRecall: true, doThreads: true, doQuestion: true, doPlanWrite: true}

// rule is one way to say one thing. Its pattern is matched against a whole clause with literals masked.
type rule struct {
	verb verb
	re   *regexp.Regexp
}

// The patterns are written with short names in braces for what recurs. {lit} is one literal; {path}, {paths}, {dir},
// {text}, {agent} are slots with the words that may stand around them.
var macros = strings.NewReplacer(
	"{lit}", lit,
	"{path}", enFile+`(?P<path>`+lit+`|it|that file|this file|the file|the same file)`,
	"{path2}", enFile+`(?P<path2>`+lit+`)`,
	"{paths}", `(?P<paths>`+enFile+lit+`(?:`+and+enFile+lit+`)*|it|that file|this file|the file|them|those(?: files)?|these files|both(?: files| of them)?)`,
	"{dir}", `(?:the )?(?:folder |directory )?(?P<dir>`+lit+`|workspace|(?:current|root|working|this|top) (?:folder|directory)|[\w-]+)(?: folder| directory)?`,
	"{text}", enText+`(?P<text>.+?)`,
	"{all}", `(?P<all>(?: all| every| each)(?: (?:occurrences?|instances?) of)?)?`+enWord,
	"{agent}", `(?:the |our |your |a |an )?(?P<agent>`+lit+`|[\p{L}\p{N}_-]+(?: [\p{L}\p{N}_-]+)?)`,
	"{agent1}", `(?:the |our |your |a |an )?(?P<agent>`+lit+`|[\p{L}\p{N}_-]+)`,
	"{anagent}", `(?:sub-?agent|agent|assistant|specialist)`,
	"{skill}", `(?P<skill>`+lit+`|[\p{L}\p{N}_-]+(?: [\p{L}\p{N}_-]+){0,2}?)`,
	"{type}", `(?P<type>markdown|text|go|golang|python|json|ya?ml|csv|html|css|javascript|typescript|java|rust|shell|sql|proto|log|toml|xml|pdf|image)`,
	"{id}", `(?P<id>`+lit+`|it|that|[\w:.-]+)`,
	"{mem}", `(?:your |my |the |our |long-term )*(?:memory|memories)`,

	"{dpath}", deFile+`(?P<path>`+lit+`|sie|ihr|es|ihn|ihm|dieselbe datei|diese datei|die datei)`,
	"{dpath2}", deFile+`(?P<path2>`+lit+`)`,
	"{dpaths}", `(?P<paths>`+deFile+lit+`(?:`+and+deFile+lit+`)*|sie|diese datei|die datei)`,
	"{ddir}", `(?:(?:dem|das|den|der) )?(?:ordner |verzeichnis )?(?P<dir>`+lit+`|arbeitsbereich|[\w-]+)`,
	"{dtext}", `(?:(?:die|den|das|eine|einen|noch|folgende|folgenden) )*(?:(?:zeile|text|satz|wort|inhalt|eintrag):? )?(?P<text>.+?)`,
	"{dword}", `(?: (?:das wort|den text|die zeile|den wert))?`,

	"{zpath}", `(?:文件)?(?P<path>`+zhName+`|它|该文件|这个文件)(?:这个)?(?:文件)?`,
	"{zpath2}", `(?:文件)?(?P<path2>`+zhName+`)`,
	"{zpaths}", `(?:文件)?(?P<paths>`+zhName+`(?:(?:和|与|及|、|，|以及)(?:文件)?`+zhName+`)*|它|该文件)(?:这个|这些)?(?:文件)?`,
	"{zin}", `(?:文件)?的?(?:中|里面|里|内)?的?`,
)

const (
	lit    = `[\x{E000}-\x{F8FF}]`
	and    = `(?:, and | and |, und | und |, | sowie | as well as | & )`
	enFile = `(?:the |a |an |this |my |our )?(?:new |existing |text |markdown |whole |entire )*(?:files? |document |page |script |report |folder |directory )?(?:called |named |at )?`
	deFile = `(?:(?:die|der|das|dem|den|eine|einen|eines) )?(?:neue |neuen |ganze )?(?:datei(?:en)? |dokument )?(?:namens |mit dem namen )?`
	enText = `(?:(?:the |a |an |this |these |one |another )?(?:new |more |following |single |last |first |exact |short |brief )*(?:lines?|note|message|heading|title|text|words?|sentence|paragraph|entry|content|contents|string|bullet|section|phrase):? (?:saying |that says |reading )?)?`
	enWord = `(?: (?:the )?(?:word|text|line|string|phrase|value|name))?`
	// A name in a Chinese sentence may be half literal: 报告 before a masked ".md".
	zhName = `(?:\p{Han}{0,8}` + lit + `)`
)

// rules compiles a table of patterns, one a line, the most specific first. Blank lines and indentation do not count; a line
// "# verb" names the verb of the patterns below it.
func rules(table string) []rule {
	var out []rule
	var v verb
	for _, line := range strings.Split(table, "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if name, ok := strings.CutPrefix(line, "# "); ok {
			v = verb(name)
			continue
		}
		out = append(out, rule{v, regexp.MustCompile(`^(?i:` + macros.Replace(line) + `)$`)})
	}
	return out
}
