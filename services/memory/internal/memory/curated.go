package memory

import (
	"regexp"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/services/memory/internal/markdown"
	"github.com/gantry-agents/gantry/services/memory/internal/text"
)

// curated is MEMORY.md as a sequence of blocks. What consolidation wrote, known by its records, may be changed; everything else belongs to people and is kept byte for
// byte. A statement is consolidation's own only as it was written, and only under a headline that consolidation wrote: who edits a line takes it over.
type curated struct {
	blocks []block
	// hashes counts the statements by the hash of what they say, whoever wrote them.
	hashes map[string]int
}

// block is one line, or one own statement.
type block struct {
	raw     string
	heading string // text of a headline; empty for others
	own     bool
	record  Record // of an own statement or headline
	item    bool   // an own statement
}

var headline = regexp.MustCompile(`^ {0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$`)

// parseCurated reads the file with its records.
func parseCurated(content string, records []Record) *curated {
	c := &curated{hashes: map[string]int{}}
	headings := map[string]Record{}
	for _, r := range records {
		if r.Heading != "" {
			headings[r.Heading] = r
		}
	}
	units := map[int]markdown.Unit{}
	for _, u := range markdown.Parse(content) {
		units[u.Line] = u
	}
	resolve := newResolver(records)
	lines := strings.SplitAfter(content, "\n")
	ownSection := false
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if line == "" {
			continue
		}
		u, isUnit := units[i+1]
		bare := strings.TrimRight(line, "\r\n")
		switch m := headline.FindStringSubmatch(bare); {
		case isUnit:
			end := u.EndLine
			raw := strings.Join(lines[i:end], "")
			hash := contentHash(u.Text)
			rec, _, recorded := resolve.next(hash)
			b := block{raw: raw, own: recorded && ownSection, item: recorded && ownSection, record: rec}
			c.count(hash, 1)
			if b.own && rec.Hash != hash {
				c.count(rec.Hash, 1)
			}
			c.blocks = append(c.blocks, b)
			i = end - 1
		case m != nil:
			rec, own := headings[contentHash(bare)]
			ownSection = own
			c.blocks = append(c.blocks, block{raw: line, heading: m[1], own: own, record: rec})
		default:
			c.blocks = append(c.blocks, block{raw: line})
		}
	}
	return c
}

func (c *curated) count(hash string, by int) { c.hashes[hash] += by }

// has says whether somebody wrote a statement that says this.
func (c *curated) has(hash string) bool { return c.hashes[hash] > 0 }

// String is the file.
func (c *curated) String() string {
	var b strings.Builder
	for _, bl := range c.blocks {
		b.WriteString(bl.raw)
	}
	return b.String()
}

// records gives the records of what is consolidation's own.
func (c *curated) records() []Record {
	var out []Record
	for _, b := range c.blocks {
		if b.own {
			out = append(out, b.record)
		}
	}
	return out
}

// own gives the positions of the own statements.
func (c *curated) own() []int {
	var out []int
	for i, b := range c.blocks {
		if b.item {
			out = append(out, i)
		}
	}
	return out
}

// find gives the position of the own statement with that content hash, or -1.
func (c *curated) find(hash string) int {
	for i, b := range c.blocks {
		if b.item && b.record.Hash == hash {
			return i
		}
	}
	return -1
}

// add puts a statement at the end of the own section of that title, making the section if need be.
func (c *curated) add(title, statement string, rec Record) {
	b := itemBlock(statement, &rec)
	at := c.sectionEnd(title)
	if at < 0 {
		c.addSection(title, rec.Time)
		at = len(c.blocks)
	}
	c.blocks = append(c.blocks[:at:at], append([]block{b}, c.blocks[at:]...)...)
	c.countItem(b, 1)
}

// replace puts a statement in the place of the own one at i.
func (c *curated) replace(i int, statement string, rec Record) {
	b := itemBlock(statement, &rec)
	c.countItem(c.blocks[i], -1)
	c.blocks[i] = b
	c.countItem(b, 1)
}

// remove takes the own statement at i out.
func (c *curated) remove(i int) {
	c.countItem(c.blocks[i], -1)
	c.blocks = append(c.blocks[:i:i], c.blocks[i+1:]...)
}

func (c *curated) countItem(b block, by int) {
	c.count(b.record.lineHash(), by)
	if b.record.Line != "" {
		c.count(b.record.Hash, by)
	}
}

// itemBlock writes a statement and completes its record.
func itemBlock(statement string, rec *Record) block {
	rec.Line = ""
	if h := contentHash(statement); h != rec.Hash {
		rec.Line = h
	}
	return block{raw: markdown.Item(statement), own: true, item: true, record: *rec}
}

// sectionEnd finds where a statement is added to an own section: behind its last line that is not blank. -1 when there is no such section.
func (c *curated) sectionEnd(title string) int {
	end := -1
	for i, b := range c.blocks {
		switch {
		case b.heading != "" && end >= 0:
			return end
		case b.own && b.heading == title:
			end = i + 1
			// The blank line under the headline stays above the statements.
			if end < len(c.blocks) && strings.TrimSpace(c.blocks[end].raw) == "" {
				end++
			}
		case end >= 0 && strings.TrimSpace(b.raw) != "":
			end = i + 1
		}
	}
	return end
}

// addSection makes an own section at the end of the file.
func (c *curated) addSection(title string, at time.Time) {
	if n := len(c.blocks); n > 0 {
		if !strings.HasSuffix(c.blocks[n-1].raw, "\n") {
			c.blocks[n-1].raw += "\n"
		}
		if strings.TrimSpace(c.blocks[n-1].raw) != "" {
			c.blocks = append(c.blocks, block{raw: "\n"})
		}
	} else {
		c.blocks = append(c.blocks, headingBlock("# Memory", "Memory", at), block{raw: "\n"})
	}
	c.blocks = append(c.blocks, headingBlock("## "+title, title, at), block{raw: "\n"})
}

func headingBlock(line, title string, at time.Time) block {
	return block{raw: line + "\n", heading: title, own: true, record: Record{Heading: contentHash(line), Provenance: Provenance{Time: at, Source: "consolidate"}}}
}

// foreignTitle says whether people have a section of that title.
func (c *curated) foreignTitle(title string) bool {
	for _, b := range c.blocks {
		if b.heading == title && !b.own {
			return true
		}
	}
	return false
}

// prune takes out own headlines of level two that nothing stands under, with the blank lines behind them.
func (c *curated) prune() {
	var out []block
	for i := 0; i < len(c.blocks); i++ {
		b := c.blocks[i]
		if b.own && b.heading != "" && strings.HasPrefix(b.raw, "## ") {
			j := i + 1
			for j < len(c.blocks) && c.blocks[j].heading == "" && strings.TrimSpace(c.blocks[j].raw) == "" {
				j++
			}
			if j == len(c.blocks) || c.blocks[j].heading != "" {
				i = j - 1
				continue
			}
		}
		out = append(out, b)
	}
	c.blocks = out
}

// tokens estimates the size of the file.
func (c *curated) tokens() int { return text.EstimateTokens(c.String()) }
