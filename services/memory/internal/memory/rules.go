package memory

import (
	"slices"
	"sort"
	"strings"

	"github.com/gantry-agents/gantry/services/memory/internal/text"
)

// entryOf is one ledger entry that is to be merged.
type ledgerEntry struct {
	statement
	path string
}

// planByRules merges entries without a model: what is there is dropped, what makes the same statement about the same subject takes the place of the older one, and
// the rest is added under its headline.
func planByRules(c *curated, entries []ledgerEntry) plan {
	var p plan
	known := newSubjects(c)
	sort.SliceStable(entries, func(i, j int) bool { return entries[i].Time.Before(entries[j].Time) })
	for _, e := range entries {
		if c.has(e.Hash) || known.same(e.Text) {
			p.duplicates++
			continue
		}
		rec := consolidated(e.Record, []string{e.ID})
		a := addition{title: titleOf(rec), text: e.Text, record: rec}
		if subject := subjectOf(e.Text); subject != "" && rec.Trust != TrustUntrusted {
			if older, ok := known.bySubject[subject]; ok {
				if older.Time.After(rec.Time) {
					p.duplicates++
					continue
				}
				// An earlier addition of this plan that is replaced was never in the file: it stays, for the moment that it is applied in order.
				a.replaces = append(a.replaces, older.Hash)
			}
			known.bySubject[subject] = rec
		}
		known.add(e.Text)
		p.adds = append(p.adds, a)
	}
	return p
}

// consolidated makes the record of a statement in MEMORY.md from that of the fact.
func consolidated(r Record, from []string) Record {
	r.ID, r.From, r.Source = factID("consolidated", r.Hash), from, "consolidate"
	r.Line, r.Effect, r.Request, r.Ordinals, r.Evidence = "", "", "", nil, ""
	return r
}

// subjects knows what MEMORY.md says about what.
type subjects struct {
	bySubject map[string]Record
	words     map[string]bool
}

func newSubjects(c *curated) *subjects {
	s := &subjects{bySubject: map[string]Record{}, words: map[string]bool{}}
	for _, i := range c.own() {
		b := c.blocks[i]
		st := statementOf(b)
		s.add(st)
		if subject := subjectOf(st); subject != "" && b.record.Trust != TrustUntrusted {
			s.bySubject[subject] = b.record
		}
	}
	return s
}

// add remembers the words of a statement.
func (s *subjects) add(statement string) {
	if key := wordKey(statement); key != "" {
		s.words[key] = true
	}
}

// same says whether a statement of the same informative words is there, in whatever order.
func (s *subjects) same(statement string) bool {
	key := wordKey(statement)
	return key != "" && s.words[key]
}

// wordKey is the set of informative words of a statement; empty when there are too few to tell statements apart, or runs of a script without spaces, whose order counts.
func wordKey(statement string) string {
	q := text.ParseQuery(statement)
	if q.Cut {
		return ""
	}
	var words []string
	for _, t := range q.Informative() {
		if t.Word == "" {
			return ""
		}
		words = append(words, t.Word)
	}
	if len(words) < 3 {
		return ""
	}
	slices.Sort(words)
	// Signs such as "+" or "not" tell statements apart that have the same words.
	return strings.Join(slices.Compact(words), " ") + "|" + strings.Join(q.Code, " ") + "|" + negation(statement)
}

func negation(s string) string {
	folded := " " + text.Canonical(s) + " "
	for _, w := range []string{" not ", "n't ", "n’t ", " no ", " never ", " nicht ", " kein", " nie ", " ne ", " pas ", " nunca ", " не "} {
		if strings.Contains(folded, w) {
			return "not"
		}
	}
	return ""
}

// relations part a statement into its subject and what is said about it. Only relations that hold one value at a time are here: "likes" is not one.
var relations = []string{
	" has changed to ", " was changed to ", " changed to ", " has moved to ", " was moved to ", " moved to ", " is now ", " are now ", " is set to ",
	" is ", " are ", " was ", " = ", ": ", " ist jetzt ", " ist ", " sind ", " lautet ", " es ahora ", " es ", " est maintenant ", " est ", " sera ",
	"改为", "变更为", "变成", "现在是", "是", "は", "가 ", "이 ", "은 ", "는 ",
}

// subjectOf is what a statement gives a value to: "gate code" for "The gate code changed to K7". Empty when that can't be told: a bare name or a single common
// word is no subject, since many things are said of it that do not exclude each other.
func subjectOf(statement string) string {
	line, _, _ := strings.Cut(statement, "\n")
	folded := text.Canonical(line)
	at := -1
	for _, r := range relations {
		if i := strings.Index(folded, r); i > 0 && (at < 0 || i < at) {
			at = i
		}
	}
	if at < 0 {
		return ""
	}
	left := folded[:at]
	q := text.ParseQuery(left)
	var words []string
	dense := false
	for _, t := range q.Terms {
		if t.Stop {
			continue
		}
		if t.Word == "" || len(t.Singles) > 0 {
			dense = true
			words = append(words, strings.Join(t.Singles, ""))
			continue
		}
		words = append(words, t.Word)
	}
	const most = 6
	enough := len(words) >= 2 || dense && len(strings.Join(words, "")) >= 6 || len(words) == 1 && possessive(left)
	if !enough || len(words) > most {
		return ""
	}
	return strings.Join(words, " ")
}

func possessive(left string) bool {
	first, _, ok := strings.Cut(left, " ")
	return ok && slices.Contains([]string{"my", "our", "your", "mein", "meine", "unser", "unsere", "mi", "mis", "nuestro", "nuestra", "mon", "ma", "mes", "notre"}, first)
}
