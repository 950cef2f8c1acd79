package offline

import (
	"regexp"
	"strings"
)

// action is one understood step, or one that was not.
type action struct {
	verb   verb
	clause string            // what was written
	slots  map[string]string // masked
	lits   *masked
	// background is set for work that nobody waits for.
	background bool
	// question is set when the sentence ended in a question mark.
	question bool
	items    []string // of a list that followed
}

// slot is the value of a slot without its marks.
func (a action) slot(name string) string { return a.lits.value(a.slots[name]) }

// has says whether the rule filled the slot.
func (a action) has(name string) bool { return strings.TrimSpace(a.slots[name]) != "" }

// parser reads one instruction. names are the subagents and tools that exist.
type parser struct {
	names names
	lits  *masked
	// work bounds the clauses that are tried, so that no text makes parsing slow.
	work int
	// What was tried once is not tried again: the ways to cut a sentence share their ends.
	clauses, splits map[string]reading
}

// reading is what came of a piece of text.
type reading struct {
	actions []action
	ok      bool
}

// names holds what the request says exists; the grammar accepts some phrases only for existing names.
type names struct {
	agents, tools, skills map[string]string // folded → as written
}

const (
	maxInstruction = 32 << 10 // characters that are read as an instruction; more of it is material
	maxWork        = 400      // clauses that are tried in one instruction
	maxClause      = 1500     // bytes of one clause, literals not counted
	maxActions     = 64
)

// parse turns an instruction into actions.
func parse(text string, n names) []action {
	m := mask(text)
	if len(m.text) > maxInstruction {
		m.text = m.text[:strings.LastIndexAny(m.text[:maxInstruction], " \n")+1]
	}
	p := &parser{names: n, lits: m, work: maxWork, clauses: map[string]reading{}, splits: map[string]reading{}}
	var out []action
	lines := joinLiterals(strings.Split(strings.ReplaceAll(m.text, "\r\n", "\n"), "\n"))
	for i := 0; i < len(lines) && len(out) < maxActions; i++ {
		line := lines[i].text
		if strings.HasSuffix(line, ":") || strings.HasSuffix(line, "：") {
			var items []string
			for j := i + 1; j < len(lines) && lines[j].bullet; j++ {
				items = append(items, lines[j].text)
			}
			if len(items) > 0 {
				if a, ok := p.list(line, items); ok {
					out = append(out, a)
					i += len(items)
				}
				continue // a heading of steps that follow says nothing itself
			}
		}
		for _, s := range sentences(line) {
			for _, a := range p.sequence(s) {
				if a.verb != doUnknown || a.clause != "" {
					out = append(out, a)
				}
			}
		}
	}
	return out[:min(len(out), maxActions)]
}

// list reads a line that takes the bullets under it as its items.
func (p *parser) list(line string, items []string) (action, bool) {
	a, ok := p.clause(strings.TrimRight(line, ":：") + ": " + strings.Join(items, ", "))
	if !ok || a.verb != doTodo && a.verb != doRemember && !p.allLiterals(items) {
		return action{}, false
	}
	for _, it := range items {
		it = strings.TrimRight(p.lits.value(it), ".;")
		if a.verb == doRemember {
			it = tidy(it)
		}
		a.items = append(a.items, it)
	}
	return a, true
}

// allLiterals says whether the items are files or commands that the line above them does the same with.
func (p *parser) allLiterals(items []string) bool {
	for _, it := range items {
		if _, ok := p.lits.only(strings.TrimRight(it, ".;,")); !ok {
			return false
		}
	}
	return true
}

type line struct {
	text   string
	bullet bool
}

var (
	bulletRE    = regexp.MustCompile(`^\s*(?:[-*•·]|\(?\d{1,3}[.):、]|\(?[a-z]\))\s+`)
	inlineFirst = regexp.MustCompile(`^\s*\(?1[.)]\s.*\s\(?2[.)]\s`)
	inlineNext  = regexp.MustCompile(`[,;]?\s+(\(?\d{1,2}[.)]\s)`)
	onlyLit     = regexp.MustCompile(`^` + lit + `[.。]?$`)
)

// joinLiterals drops blank lines, takes bullets off, and joins a block that stands alone to the line that speaks of it.
func joinLiterals(raw []string) []line {
	var out []line
	for i := 0; i < len(raw); i++ {
		l := raw[i]
		if inlineFirst.MatchString(l) { // "1) this 2) that" on one line
			more := strings.Split(inlineNext.ReplaceAllString(l, "\n$1"), "\n")
			raw = append(raw[:i:i], append(more, raw[i+1:]...)...)
			l = raw[i]
		}
		text := strings.TrimSpace(bulletRE.ReplaceAllString(l, ""))
		if text == "" {
			continue
		}
		if onlyLit.MatchString(text) && len(out) > 0 && !bulletRE.MatchString(l) {
			out[len(out)-1].text += " " + text
			continue
		}
		out = append(out, line{text, bulletRE.MatchString(l)})
	}
	return out
}

// sentences splits a line at the ends of sentences; the mark stays with the sentence.
func sentences(text string) []string {
	var out []string
	start := 0
	rs := []rune(text)
	for i, r := range rs {
		end := strings.ContainsRune("。！？；", r)
		if strings.ContainsRune(".!?;", r) {
			end = (i+1 == len(rs) || rs[i+1] == ' ') && (i == 0 || rs[i-1] != ' ')
			if end && r == '.' && i > 0 && i+1 < len(rs) && abbreviated(rs[start:i]) {
				end = false
			}
		}
		if end {
			out = append(out, strings.TrimSpace(string(rs[start:i+1])))
			start = i + 1
		}
	}
	if rest := strings.TrimSpace(string(rs[start:])); rest != "" {
		out = append(out, rest)
	}
	return out
}

var abbreviation = regexp.MustCompile(`(?:^|\s)(?i:[a-z]|mr|mrs|ms|dr|st|no|vs|etc|e\.g|i\.e|z\.b|approx|max|min|ca|bzw)$`)

func abbreviated(before []rune) bool { return abbreviation.MatchString(string(before)) }

var dangling = regexp.MustCompile(`(?i)[,;]?(?: (?:and|then|und|dann))+[.,]?$`)

// connectors stand between two steps. strong ones always part them, weak ones only if both sides make sense.
var (
	strongRE = regexp.MustCompile(`(?i),? (?:and )?then |,? and (?:after that|afterwards|finally|also|next),? |, (?:after that|afterwards|finally|next),? |; ?|(?:,| und)? (?:dann|danach|anschließend) |[，,]?(?:然后|接着|随后|最后|之后)[，,]?|[，,](?:再|并且|并|同时|另外)`)
	commaRE  = regexp.MustCompile(`(?i),? and |, und | und |, |，|并且|并|、`)
	heading  = regexp.MustCompile(`(?i),? and |, und | und |, |: |，|并且|并|、`) // where half understood sentences are cut
	commaAnd = regexp.MustCompile(`(?i), (?:and|und) |，(?:并且|并)|, `)
)

// sequence reads a sentence of one step or more.
func (p *parser) sequence(s string) []action {
	s = dangling.ReplaceAllString(strings.TrimSpace(s), "")
	if out, ok := p.split(s); ok {
		return out
	}
	// Not all of it makes sense: keep what does, say what does not.
	for _, cut := range strongRE.FindAllStringIndex(s, -1) {
		left, right := s[:cut[0]], s[cut[1]:]
		if l, ok := p.split(left); ok {
			return append(l, p.sequence(right)...)
		}
		if r, ok := p.split(right); ok {
			return append(p.unknown(left), r...)
		}
	}
	for _, cut := range heading.FindAllStringIndex(s, -1) {
		left, right := s[:cut[0]], s[cut[1]:]
		if _, ok := factOf(p.lits, left); ok {
			break
		}
		if r, ok := p.split(right); ok && meant(r) {
			return append(p.unknown(left), r...)
		}
		if l, ok := p.clause(left); ok && meant([]action{l}) {
			return append([]action{l}, p.sequence(right)...)
		}
	}
	if isQuestion(s) {
		return []action{p.question(s)}
	}
	if _, ok := factOf(p.lits, s); ok {
		return []action{{verb: doStatement, clause: p.lits.unmask(s), lits: p.lits}}
	}
	return p.unknown(s)
}

// meant says whether the actions do something: a mere report beside words that were not understood proves nothing.
func meant(as []action) bool {
	for _, a := range as {
		if a.verb != doReport && a.verb != doQuestion && a.verb != doReply {
			return true
		}
	}
	return false
}

func (p *parser) unknown(s string) []action {
	text := strings.TrimSpace(p.lits.unmask(trimLead(s)))
	if text == "" || particle.MatchString(text) {
		return nil
	}
	return []action{{verb: doUnknown, clause: text, lits: p.lits}}
}

// A verb's particle that a connecting word has parted from it is no step.
var particle = regexp.MustCompile(`^(?:vor|aus|an|auf|um|ab|hinzu|ein)[.!]?$`)

func (p *parser) question(s string) action {
	return action{verb: doQuestion, clause: p.lits.unmask(s), slots: map[string]string{"query": s}, lits: p.lits, question: true}
}

// split parts a sentence into steps that all make sense; ok is false if there is no such way.
func (p *parser) split(s string) ([]action, bool) {
	s = strings.TrimSpace(s)
	r, known := p.splits[s]
	if !known {
		r.actions, r.ok = p.cut(s)
		p.splits[s] = r
	}
	return append([]action(nil), r.actions...), r.ok
}

func (p *parser) cut(s string) ([]action, bool) {
	if p.work <= 0 {
		return nil, false
	}
	for _, re := range []*regexp.Regexp{strongRE, commaRE} {
		for _, cut := range re.FindAllStringIndex(s, -1) {
			l, ok := p.clause(s[:cut[0]])
			if !ok || re == commaRE && swallows[l.verb] && !commaAnd.MatchString(s[cut[0]:cut[1]]) {
				continue
			}
			if re == commaRE && swallows[l.verb] && l.verb != doRemember && l.verb != doQuestion && !strings.Contains(s[cut[0]:cut[1]], "and") && !strings.Contains(s[cut[0]:cut[1]], "und") && !strings.Contains(s[cut[0]:cut[1]], "并") {
				continue // a list inside the phrase
			}
			r, ok := p.split(s[cut[1]:])
			if right := strings.TrimSpace(s[cut[1]:]); !ok && leadLit.MatchString(right) { // 'write "a" to x, "b" to y'
				verb, _, _ := strings.Cut(trimLead(s[:cut[0]]), " ")
				r, ok = p.split(verb + " " + right)
			}
			if !ok || re == commaRE && swallows[l.verb] && (r[0].verb == doReply || r[0].verb == doQuestion && !questionStart.MatchString(strings.TrimSpace(s[cut[1]:]))) {
				continue
			}
			return append([]action{l}, r...), true
		}
	}
	a, ok := p.clause(s)
	if !ok {
		return nil, false
	}
	return []action{a}, true
}

var leadLit = regexp.MustCompile(`^` + lit + ` `)

func isQuestion(s string) bool {
	s = trimLead(s)
	return strings.HasSuffix(s, "?") || strings.HasSuffix(s, "？") || questionStart.MatchString(s) || deQuestion.MatchString(s) || zhQuestion.MatchString(s)
}

func trimLead(s string) string {
	for range 4 {
		next := zhLead.ReplaceAllString(deLead.ReplaceAllString(enLead.ReplaceAllString(strings.TrimSpace(s), ""), ""), "")
		if next == s {
			break
		}
		s = next
	}
	return s
}

var (
	background = regexp.MustCompile(`(?i)(?:,? ?\(?in(?: the)? background\)?|,? im hintergrund|在后台)`)
	contracted = regexp.MustCompile(`(?i)^(what|who|where|when|how)['’]s `)
)
