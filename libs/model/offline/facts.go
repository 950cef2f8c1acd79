package offline

import (
	"regexp"
	"strings"
)

// FactKind says by which kind of pattern a fact was found.
type FactKind string

// The kinds of facts.
const (
	FactAsked      FactKind = "asked"      // the user asked to have it remembered
	FactIdentity   FactKind = "identity"   // who the user is
	FactPreference FactKind = "preference" // what the user likes, wants always or never
	FactDecision   FactKind = "decision"   // what was agreed
	FactStatement  FactKind = "statement"  // "my … is …"
)

// Fact is something in a text that is worth keeping.
type Fact struct {
	Text string // one line without a full stop
	Kind FactKind
}

const (
	maxFact  = 400 // characters of one fact; a longer sentence is prose and not a fact
	maxFacts = 50  // of one text
)

// factRules are tried in order on each sentence. The first group is what is kept.
var factRules = []struct {
	kind FactKind
	re   *regexp.Regexp
}{
	{FactAsked, regexp.MustCompile(`^(?i:(?:please |and |also )*(?:remember|keep in mind|bear in mind|note|don't forget|do not forget|memori[sz]e|for the record)(?:,? that |: ?|, | )(.+))$`)},
	{FactAsked, regexp.MustCompile(`^(?i:(?:bitte )?(?:merke? dir|vergiss nicht|denk daran)(?:, dass |: ?|, | )(.+))$`)},
	{FactAsked, regexp.MustCompile(`^(?:请)?(?:记住|记下|别忘了|不要忘记)[，,：:]?(.+)$`)},
	{FactIdentity, regexp.MustCompile(`^(?i)((?:my name is|call me|i am called|i live in|i work (?:at|for|as|in|on)|i am (?:an?|the|from|based)|i'm (?:an?|the|from|based)|we are (?:an?|the)|ich heiße|ich wohne|ich arbeite|ich bin) .+)$`)},
	{FactIdentity, regexp.MustCompile(`^(我(?:叫|住在|在.+工作|来自|是一).+)$`)},
	{FactPreference, regexp.MustCompile(`^(?i)((?:i|we) (?:really |always |never |usually |would |strongly )*(?:prefer|like|love|hate|dislike|enjoy|avoid|favou?r|use|want|need|drink|eat)s? .+)$`)},
	{FactPreference, regexp.MustCompile(`^(?i)((?:always|never|from now on,?|in (?:the )?future,?|by default,?) .+)$`)},
	{FactPreference, regexp.MustCompile(`^(?i)(ich (?:bevorzuge|mag|hasse|liebe|nutze|verwende|möchte) .+)$`)},
	{FactPreference, regexp.MustCompile(`^(我们?(?:喜欢|偏好|更喜欢|讨厌|总是|从不|习惯).+)$`)},
	{FactDecision, regexp.MustCompile(`^(?i)((?:we|the team|they) (?:have |had )?(?:decided|agreed|settled|chose|concluded|will go)(?: (?:to|that|on|with|for|upon))? .+)$`)},
	{FactDecision, regexp.MustCompile(`^(?i)((?:it was|it is) (?:decided|agreed) .+|(?:the )?decision(?: is|:) .+)$`)},
	{FactDecision, regexp.MustCompile(`^(?i)(wir haben (?:beschlossen|entschieden|vereinbart).+|wir (?:beschließen|vereinbaren) .+)$`)},
	{FactDecision, regexp.MustCompile(`^(我们(?:已经)?(?:决定|同意|商定)了?.+)$`)},
	{FactStatement, regexp.MustCompile(`^(?i)((?:my|our) [\p{L}\p{N}' -]{1,60}? (?:is|are|was|were|will be|has|have|lives?|works?|prefers?|likes?) .+)$`)},
	{FactStatement, regexp.MustCompile(`^(?i)((?:mein|meine|unser|unsere) [\p{L}\p{N} -]{1,60}? (?:ist|sind|war|heißt|hat|lautet) .+)$`)},
	{FactStatement, regexp.MustCompile(`^(我们?的.{1,20}?(?:是|叫|在|有).+)$`)},
}

var factLead = regexp.MustCompile(`^(?i:(?:by the way|btw|fyi|also|and|so|well|hi|hello|ok|okay|actually|oh|note|please note|übrigens|顺便说一下|另外)[,:，]? )+`)

// ExtractFacts finds the facts in a text by patterns: what the user asked to have remembered, who the user is, what is
// preferred, what was decided, and "my … is …". Questions are none, text inside fenced blocks is none, and a fact appears
// once. The text is the user's own words: nothing is inferred.
func ExtractFacts(text string) []Fact {
	var out []Fact
	seen := map[string]bool{}
	m := mask(text)
	for _, l := range joinLiterals(strings.Split(m.text, "\n")) {
		for _, s := range sentences(l.text) {
			if len(out) == maxFacts {
				return out
			}
			if f, ok := factOf(m, s); ok && !seen[strings.ToLower(f.Text)] {
				seen[strings.ToLower(f.Text)] = true
				out = append(out, f)
			}
		}
	}
	return out
}

func factOf(m *masked, sentence string) (Fact, bool) {
	for _, r := range sentence {
		if l, ok := m.at(r); ok && l.kind == litFence {
			return Fact{}, false
		}
	}
	s := strings.TrimSpace(m.unmask(sentence))
	if strings.HasSuffix(s, "?") || strings.HasSuffix(s, "？") || len([]rune(s)) > maxFact {
		return Fact{}, false
	}
	s = factLead.ReplaceAllString(s, "")
	for _, r := range factRules {
		g := r.re.FindStringSubmatch(s)
		if g == nil {
			continue
		}
		fact := tidy(g[1])
		if len([]rune(fact)) < 3 {
			return Fact{}, false
		}
		return Fact{fact, r.kind}, true
	}
	return Fact{}, false
}
