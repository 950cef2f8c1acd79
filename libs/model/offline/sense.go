package offline

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// A pattern says how a step may be written; sensible says whether what stands in its slots can be meant.

var (
	// text that speaks of itself has to be composed, and nobody is here to do it
	composed = regexp.MustCompile(`^(?i:an?|the|some|any|my|your|our|its|their|about|several|two|three|four|five|eine?n?|die|der|das|etwas|über|一个|一篇|一首|关于)\b|^一[个篇首段份]`)
	// words for what came out of an earlier step
	resultRE  = regexp.MustCompile(`^(?i:(?:the |its |this |that |all |these |your |die |das |der |den )*(?:results?|outputs?|answer|contents?|it|that|this|them|findings|reply|response|matches|lines|list|ergebnisse?|ausgabe|antwort|inhalt|es|结果|输出|内容|它)(?: (?:of|from) (?:it|that|this|the (?:command|run|search|file|agent|subagent|reviewer).*))?)$`)
	summaryRE = regexp.MustCompile(`^(?i:(?:the |a |your |its |die |eine )*(?:short |brief )?(?:summary|recap|zusammenfassung|总结|摘要)(?: of (?:it|that|this|them|the .*|what .*|everything))?)$`)
	program   = regexp.MustCompile(`^[a-z0-9_./~$-][\w./+-]*(?:\s|$)|^` + lit)
	notACmd   = regexp.MustCompile(`^(?i:the|a|an|it|this|that|these|all|my|your|our|them|again|for|through|out|some|any|to|in|den|die|das|es|alle|tests?|everything|away|into|nothing|so|with|is|not)\b`)
	pronoun   = regexp.MustCompile(`^(?i:it|that|this|that file|this file|the file|the same file|sie|ihr|es|ihn|ihm|dieselbe datei|diese datei|die datei|它|该文件|这个文件)$`)
	articleRE = regexp.MustCompile(`^\S+ (?i:the|this|these|a|an|den|das|die) `)
	commandRE = regexp.MustCompile(`(?i)\b(?:commands?|script|program|line|one-liner|shell|terminal|befehl|kommando|skript)\b`)
	fileLike  = regexp.MustCompile(`[^/.]\.[A-Za-z][A-Za-z0-9]{0,7}$|[*?]`)
	plural    = regexp.MustCompile(`^(?i:them|those(?: files)?|these files|both(?: files| of them)?)$`)
	urlLike   = regexp.MustCompile(`^https?://`)
	wildcard  = regexp.MustCompile(`[*?]`)
)

func (p *parser) sensible(a action) bool {
	for _, name := range []string{"path", "path2"} {
		if a.has(name) && !p.pathLike(a.slots[name]) {
			return false
		}
	}
	switch a.verb {
	case doWrite, doAppend:
		return !a.has("text") || p.textLike(a.slots["text"])
	case doEdit:
		return a.slot("old") != "" && (!composed.MatchString(a.slots["old"]+" ") || a.slot("old") != a.slots["old"])
	case doList:
		return !a.has("dir") || !fileLike.MatchString(a.slot("dir"))
	case doRun:
		return p.commandLike(a)
	case doFetch:
		return urlLike.MatchString(a.slot("url"))
	case doTool:
		_, ok := p.names.tools[fold(a.slot("tool"))]
		return ok
	case doDelegate:
		return p.agentLike(a)
	case doReadAll:
		return !a.has("glob") || wildcard.MatchString(a.slot("glob"))
	case doGlob:
		return !a.has("glob") || wildcard.MatchString(a.slot("glob")) || strings.Contains(a.clause, "named")
	case doRead:
		return p.noWildcard(a.slots["paths"])
	case doGrep:
		return a.slot("query") != "" && !resultRE.MatchString(a.slots["query"])
	case doRemember:
		return len([]rune(strings.Trim(a.slot("fact"), " .:"))) > 1
	case doReply:
		return !resultRE.MatchString(a.slots["text"])
	case doSummary:
		return !a.has("path2") || !pronoun.MatchString(a.slots["path"]) // "of it" is of what was read before
	}
	return true
}

func (p *parser) pathLike(s string) bool {
	s = strings.TrimSpace(s)
	if pronoun.MatchString(s) {
		return true
	}
	for _, r := range s { // a quoted thing of many words or lines is text and no name
		if l, ok := p.lits.at(r); ok && (strings.ContainsAny(l.text, "\n") || l.kind == litURL || l.kind == litJSON || l.kind == litFence || len(l.text) > 512) {
			return false
		}
	}
	return true
}

func (p *parser) noWildcard(s string) bool {
	for _, r := range s {
		if l, ok := p.lits.at(r); ok && (l.kind == litURL || l.kind == litJSON || l.kind == litFence || strings.ContainsAny(l.text, "\n") || l.kind == litPath && wildcard.MatchString(l.text)) {
			return false
		}
	}
	return true
}

func (p *parser) textLike(s string) bool {
	s = strings.TrimSpace(s)
	if _, ok := p.lits.only(s); ok || resultRE.MatchString(s) || summaryRE.MatchString(s) {
		return true
	}
	if r, _ := utf8.DecodeRuneInString(s); len(s) > 0 {
		if l, ok := p.lits.at(r); ok && l.kind <= litFence {
			return false // what begins with a quotation and goes on says more than one thing
		}
	}
	return !composed.MatchString(s)
}

func (p *parser) commandLike(a action) bool {
	s := strings.TrimSpace(a.slots["cmd"])
	if l, ok := p.lits.only(s); ok {
		return l.kind != litURL && l.kind != litJSON
	}
	if cmdList.MatchString(s) {
		return true
	}
	if articleRE.MatchString(a.clause) && !commandRE.MatchString(a.clause) {
		return false // "run the marathon" names no program
	}
	return program.MatchString(s) && !notACmd.MatchString(s)
}

var cmdList = regexp.MustCompile(`^` + lit + `(?:` + and + `(?:then )?(?:run )?` + lit + `)+$|^` + lit + `(?:[和、与]` + lit + `)+$`)

// agentLike accepts a name that exists; another one only if the clause says that it is an agent.
func (p *parser) agentLike(a action) bool {
	name := a.slot("agent")
	switch fold(name) {
	case "me", "us", "user", "theuser", "mich", "uns", "mir", "it", "them", "我", "用户":
		return false
	}
	if strings.TrimSpace(a.slot("task")) == "" {
		return false
	}
	if _, ok := p.names.agents[fold(name)]; ok {
		return true
	}
	return agentWord.MatchString(strings.Replace(a.clause, a.slots["task"], "", 1))
}

var agentWord = regexp.MustCompile(`(?i)\b(?:sub-?agent|agent|assistant|specialist|unteragent)|代理|智能体|助手`)

// fold makes names comparable: letters and digits in lower case.
func fold(s string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(s) {
		if isWord(r) && r != '_' || isCJK(r) {
			b.WriteRune(r)
		}
	}
	return b.String()
}
