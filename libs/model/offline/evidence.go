package offline

import (
	"encoding/json"
	"html"
	"regexp"
	"sort"
	"strings"
	"unicode"

	"github.com/gantry-agents/gantry/libs/model"
)

// evidence is what the conversation itself says: lines of memory, knowledge and other reference material, then facts that
// the user stated earlier.
type evidence struct {
	lines []string
}

var itemRE = regexp.MustCompile(`(?s)<context_item\b[^>]*>(.*?)</context_item>`)

func readEvidence(messages []model.Message) evidence {
	var e evidence
	var stated []string
	for _, m := range messages {
		text := m.Text()
		switch {
		case m.Role != model.RoleUser:
		case isInstruction(m):
			for _, f := range ExtractFacts(text) {
				stated = append(stated, f.Text)
			}
		case m.Origin == model.OriginReference || m.Origin == model.OriginSummary || m.Origin == model.OriginInject || m.Origin == model.OriginTaskResult || strings.Contains(text, "HARNESS_CONTEXT"):
			items := itemRE.FindAllStringSubmatch(text, -1)
			for _, it := range items {
				e.lines = append(e.lines, lines(html.UnescapeString(it[1]))...)
			}
			if len(items) == 0 {
				e.lines = append(e.lines, lines(text)...)
			}
		}
	}
	e.lines = append(e.lines, stated...)
	return e
}

var (
	lineLead = regexp.MustCompile(`^(?:[-*•#>]+\s+|\d+[.)]\s+)+`)
	source   = regexp.MustCompile(`^(?:session [^:]{1,300}: |(?:\w+: ?)?[\w./ -]+\.\w+(?:[#:]L?\d+)?(?:-\d+)?:\s*)`)
)

// lines splits material into lines without their marks: Markdown, "path:line: text" of a search, or the strings of JSON.
func lines(text string) []string {
	var v any
	if trimmed := strings.TrimSpace(text); (strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[")) && json.Unmarshal([]byte(trimmed), &v) == nil {
		return stringsOf(v, nil)
	}
	var out []string
	for _, l := range strings.Split(text, "\n") {
		l = strings.TrimSpace(source.ReplaceAllString(strings.TrimSpace(l), ""))
		l = strings.TrimSpace(lineLead.ReplaceAllString(l, ""))
		if l == "" || strings.HasPrefix(l, "<") && strings.HasSuffix(l, ">") || strings.HasPrefix(l, "```") {
			continue
		}
		out = append(out, l)
	}
	return out
}

// stringsOf lists the strings in a JSON value that read like text.
func stringsOf(v any, out []string) []string {
	switch v := v.(type) {
	case string:
		if strings.ContainsAny(strings.TrimSpace(v), " \n") || hasHan(v) {
			out = append(out, lines(v)...)
		}
	case []any:
		for _, e := range v {
			out = stringsOf(e, out)
		}
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for _, k := range keys {
			if fold(k) != "query" { // the question is no answer to itself
				out = stringsOf(v[k], out)
			}
		}
	}
	return out
}

// best is the line that shares most with the question. At least half of the question's words must be in it, and one that
// is not in most lines; of equals the first wins, a line that is a question itself never does.
func best(question string, candidates []string) (string, bool) {
	words := keywords(question)
	if len(words) == 0 {
		return "", false
	}
	sets := make([]map[string]bool, len(candidates))
	common := map[string]int{}
	for i, c := range candidates {
		sets[i] = map[string]bool{}
		for _, w := range keywords(c) {
			if !sets[i][w] {
				common[w]++
			}
			sets[i][w] = true
		}
	}
	top, at := 0.0, -1
	for i, set := range sets {
		hits, score := 0, 0.0
		for _, w := range words {
			if set[w] {
				hits++
				score += 1 / float64(common[w])
			}
		}
		if 2*hits < len(words) || hits == 0 || strings.HasSuffix(candidates[i], "?") {
			continue
		}
		// A line that says more than the question's own words is worth more than a heading of them.
		if len(set) > hits {
			score += float64(hits)
		}
		if score > top {
			top, at = score, i
		}
	}
	if at < 0 {
		return "", false
	}
	return candidates[at], true
}

// stop holds the words that carry no subject.
var stop = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`a an the is are was were be been am do does did can could will would shall should may might must have has had
		i me my mine we us our you your he she it its they them their this that these those what which who whom whose where when how why
		of in on at to from for with by about as into and or not no if so there here please tell know remember recall any some
		say said give s t re ll according memory call called much many us let use
		der die das den dem des ein eine einen einem einer ist sind war was wer wie wo wann welche welcher welches mein meine meinen dein deine ich du wir mir dir
		und oder von zu für mit über heißt`) {
		m[w] = true
	}
	return m
}()

var (
	zhStop = regexp.MustCompile(`什么|我的|你的|我们|你|我|是|的|吗|呢|谁|哪里|哪个|哪|怎么|多少|几|了|在|叫|请问|关于|知道|记得|？|。|，`)
	word   = regexp.MustCompile(`[\p{L}\p{N}_]+`)
)

// keywords are the words of a text that carry its subject, in a form in which spellings and endings agree. Han characters
// count in pairs.
func keywords(s string) []string {
	var out []string
	for _, w := range word.FindAllString(strings.ToLower(s), -1) {
		if hasHan(w) {
			for _, run := range zhStop.Split(w, -1) {
				rs := []rune(run)
				if len(rs) == 1 {
					out = append(out, run)
				}
				for i := 0; i+1 < len(rs); i++ {
					out = append(out, string(rs[i:i+2]))
				}
			}
			continue
		}
		if !stop[w] {
			out = append(out, stem(w))
		}
	}
	return out
}

// subject is the words of a question to search for, as they were written.
func subject(s string) []string {
	var out []string
	for _, w := range word.FindAllString(s, -1) {
		if hasHan(w) {
			for _, run := range zhStop.Split(w, -1) {
				if run != "" {
					out = append(out, run)
				}
			}
		} else if !stop[strings.ToLower(w)] {
			out = append(out, w)
		}
	}
	return out
}

var spelling = strings.NewReplacer("colour", "color", "favour", "favor", "labour", "labor", "honour", "honor", "centre", "center")

// stem takes off the commonest endings; it need not be right, only the same on both sides.
func stem(w string) string {
	w = spelling.Replace(w)
	if strings.IndexFunc(w, unicode.IsDigit) >= 0 {
		return w
	}
	for _, end := range []string{"ingly", "edly", "ings", "ing", "ies", "ied", "ed", "es", "ly", "s", "e", "y"} {
		if strings.HasSuffix(w, end) && len(w)-len(end) >= 3 {
			return strings.TrimSuffix(w, end)
		}
	}
	return w
}
