package offline

import (
	"strings"
)

// clause reads one step.
func (p *parser) clause(s string) (action, bool) {
	s = strings.TrimSpace(s)
	r, known := p.clauses[s]
	if !known {
		if p.work--; p.work < 0 || len(s) > maxClause {
			return action{}, false
		}
		a, ok := p.step(s)
		r = reading{[]action{a}, ok}
		p.clauses[s] = r
	}
	return r.actions[0], r.ok
}

func (p *parser) step(s string) (action, bool) {
	written := s
	asks := isQuestion(s)
	s = contracted.ReplaceAllString(s, "$1 is ")
	s = strings.Join(strings.Fields(s), " ")
	if strings.HasSuffix(s, " .") { // the directory, no full stop
		s += " ."
	}
	bare := zhTrail.ReplaceAllString(enTrail.ReplaceAllString(strings.TrimRight(s, "?？ "), ""), "")
	// Some words of politeness are verbs as well ("bitte den Prüfer, …"), so the whole is tried before the rest.
	forms := []string{bare, trimLead(bare)}
	if hasHan(bare) {
		forms = []string{forms[1], forms[0]}
	}
	for _, form := range forms {
		if form == "" {
			continue
		}
		tables := [][]rule{english, german}
		if hasHan(form) {
			form = zhBlank.ReplaceAllString(form, "$1$2")
			tables = [][]rule{chinese, english}
		}
		for i, table := range tables {
			if i == 1 {
				form = deFiller.ReplaceAllString(form, "")
			}
			for _, r := range table {
				if a, ok := p.match(r, form); ok {
					a.clause, a.question = p.lits.unmask(written), asks
					return a, true
				}
			}
		}
	}
	if asks {
		return p.question(written), true
	}
	return action{}, false
}

func hasHan(s string) bool {
	return strings.IndexFunc(s, isCJK) >= 0
}

func (p *parser) match(r rule, form string) (action, bool) {
	bg := false
	if r.verb == doDelegate && background.MatchString(form) {
		form, bg = strings.TrimSpace(background.ReplaceAllString(form, "")), true
	}
	g := r.re.FindStringSubmatch(form)
	if g == nil {
		return action{}, false
	}
	a := action{verb: r.verb, clause: form, slots: map[string]string{}, lits: p.lits, background: bg}
	for i, name := range r.re.SubexpNames() {
		if name != "" && g[i] != "" {
			a.slots[name] = g[i]
		}
	}
	return a, p.sensible(a)
}
