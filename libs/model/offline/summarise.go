package offline

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

var headline = regexp.MustCompile(`^#{1,6}\s+\S|^\S[^.!?]{0,80}:$`)

// Summarise shortens a text to at most limit characters by headline: the headings, and of every paragraph and list item
// the first sentence, in order. Repeated lines are dropped. When that is still too long, headings and the beginnings of
// what stands under them are kept evenly from the whole text. A text that fits is returned as it is.
func Summarise(text string, limit int) string {
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	var picks []string
	seen := map[string]bool{}
	fenced, fresh := false, true
	for _, l := range strings.Split(text, "\n") {
		l = strings.TrimSpace(l)
		if strings.HasPrefix(l, "```") {
			fenced = !fenced
			continue
		}
		if fenced || l == "" {
			fresh = fresh || l == ""
			continue
		}
		isHead, isItem := headline.MatchString(l), bulletRE.MatchString(l)
		if !isHead && !isItem && !fresh {
			continue // the paragraph's first line spoke for it
		}
		fresh = isHead
		if !isHead {
			if s := sentences(l); len(s) > 0 {
				l = s[0]
			}
		}
		if !seen[l] {
			seen[l] = true
			picks = append(picks, l)
		}
	}
	return fit(picks, limit)
}

// fit keeps whole lines, evenly spread, and cuts a line only when not even one fits.
func fit(picks []string, limit int) string {
	const more = "…"
	for keep := len(picks); keep > 0; keep = keep * 3 / 4 {
		var out []string
		for i := range keep {
			out = append(out, picks[i*len(picks)/keep])
		}
		s := strings.Join(out, "\n")
		if keep < len(picks) {
			s += "\n" + more
		}
		if utf8.RuneCountInString(s) <= limit {
			return s
		}
	}
	if len(picks) == 0 || limit <= 1 {
		return ""
	}
	r := []rune(picks[0])
	if len(r) > limit-1 {
		r = r[:limit-1]
	}
	return string(r) + more
}
