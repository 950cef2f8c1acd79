package memory

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/services/memory/internal/markdown"
	"github.com/gantry-agents/gantry/services/memory/internal/text"
)

const (
	unverifiedTitle = "Unverified (quoted from documents and tools)"
	moreTitle       = "More"
	moreText        = "Older memories are in memory/overflow/. A memory search finds them."
)

// plan is what a merge wants, in terms that hold for any state of MEMORY.md: when somebody changes the file meanwhile, the same plan is applied to what they wrote.
type plan struct {
	adds  []addition
	drops []string // content hashes of own statements
	// duplicates counts entries that say nothing new.
	duplicates int
}

// addition is a statement for MEMORY.md.
type addition struct {
	title  string
	text   string
	record Record
	// replaces are the content hashes of own statements that this one takes the place of.
	replaces []string
}

// moved is a statement that leaves MEMORY.md for the overflow file.
type moved struct {
	text   string
	record Record
}

// counts tells what a merge did.
type counts struct{ added, superseded, duplicates int }

// apply carries the plan out. It may be applied to any state of the file, also to one to which it was applied already.
func (p plan) apply(c *curated, now time.Time) (n counts, out []moved) {
	n.duplicates = p.duplicates
	for _, a := range p.adds {
		old := c.replaceable(a)
		if c.has(a.record.Hash) {
			n.duplicates++
			old = slices.DeleteFunc(old, func(hash string) bool { return hash == a.record.Hash })
		} else {
			n.added++
		}
		statement := a.text
		if len(old) > 0 {
			statement = since(a.text, a.record.Time)
		}
		first := true
		for _, hash := range old {
			i := c.find(hash)
			b := c.blocks[i]
			n.superseded++
			out = append(out, moved{until(statementOf(b), now, a.text), b.record})
			if first && !c.has(a.record.Hash) {
				c.replace(i, statement, a.record)
			} else {
				c.remove(i)
			}
			first = false
		}
		if !c.has(a.record.Hash) {
			title := a.title
			if c.foreignTitle(title) {
				title += " (learned)"
			}
			c.add(title, statement, a.record)
		}
	}
	for _, hash := range p.drops {
		if i := c.find(hash); i >= 0 {
			out = append(out, moved{statementOf(c.blocks[i]), c.blocks[i].record})
			c.remove(i)
			n.superseded++
		}
	}
	c.prune()
	return n, out
}

// replaceable gives the statements that an addition may replace and that are there. What nobody vouches for replaces nothing that somebody does.
func (c *curated) replaceable(a addition) []string {
	var out []string
	for _, hash := range a.replaces {
		i := c.find(hash)
		if i < 0 || slices.Contains(out, hash) {
			continue
		}
		if a.record.Trust == TrustUntrusted && c.blocks[i].record.Trust != TrustUntrusted {
			continue
		}
		out = append(out, hash)
	}
	return out
}

// fit moves own statements out until the file is within the budget: what nobody vouches for first, then the oldest. It reports whether the file fits.
func (c *curated) fit(budget int, now time.Time) (out []moved, fits bool) {
	if c.tokens() <= budget {
		return nil, true
	}
	if c.find(contentHash(moreText)) < 0 {
		c.add(moreTitle, moreText, Record{ID: factID("content", contentHash(moreText)), Hash: contentHash(moreText), Kind: FactPlain,
			Provenance: Provenance{Time: now, Trust: TrustAgent, Source: "consolidate"}})
	}
	var order []Record
	for _, i := range c.own() {
		if r := c.blocks[i].record; r.Hash != contentHash(moreText) {
			order = append(order, r)
		}
	}
	slices.SortStableFunc(order, func(a, b Record) int {
		if au, bu := a.Trust == TrustUntrusted, b.Trust == TrustUntrusted; au != bu {
			if au {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Time.UnixNano(), b.Time.UnixNano())
	})
	for _, r := range order {
		if c.tokens() <= budget {
			break
		}
		i := c.find(r.Hash)
		out = append(out, moved{statementOf(c.blocks[i]), c.blocks[i].record})
		c.remove(i)
		c.prune()
	}
	return out, c.tokens() <= budget
}

// statementOf is the text of an own statement.
func statementOf(b block) string {
	units := markdown.Parse(b.raw)
	if len(units) == 0 {
		return strings.TrimSpace(b.raw)
	}
	return units[0].Text
}

// since dates a statement that took the place of another.
func since(s string, at time.Time) string {
	if strings.Contains(text.Fold(s), "since ") {
		return s
	}
	return s + " (since " + at.Format(time.DateOnly) + ")"
}

// until dates a statement that another took the place of.
func until(s string, at time.Time, by string) string {
	return s + " (until " + at.Format(time.DateOnly) + ", then: " + strings.ReplaceAll(by, "\n", " ") + ")"
}

// titleOf is the section for a fact.
func titleOf(r Record) string {
	switch {
	case r.Trust == TrustUntrusted:
		return unverifiedTitle
	case r.Topic != "":
		return strings.TrimLeft(r.Topic, "# ")
	}
	if title := kindTitles[r.Kind]; title != "" {
		return title
	}
	return kindTitles[FactPlain]
}
