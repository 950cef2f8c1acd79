package memory

import (
	"regexp"
	"strings"

	"github.com/gantry-agents/gantry/services/memory/internal/markdown"
)

// pattern is a way in which people say something that is worth keeping.
type pattern struct {
	kind FactKind
	re   *regexp.Regexp
}

// patterns are looked for in each sentence of a user. The first that matches decides; a group, where there is one, is what is kept.
var patterns = []pattern{
	{FactPlain, regexp.MustCompile(`(?i)^(?:please |and |also |now )*(?:remember|note|keep in mind|don'?t forget)(?: that|:|,)?\s+(.+)$`)},
	{FactPlain, regexp.MustCompile(`^(?:请)?(?:记住|记下|记得|别忘了)[:：，,]?\s*(.+)$`)},
	{FactPlain, regexp.MustCompile(`^(.+?)(?:を|と|って)?(?:覚えて(?:おいて)?|記憶して)(?:ください|ね)?$`)},
	{FactPlain, regexp.MustCompile(`^(.+?)(?:을|를|라고|다고)?\s*기억해(?:\s?줘|주세요|요)?$`)},
	{FactPlain, regexp.MustCompile(`(?i)^(?:bitte )?(?:merk(?:e)? dir|denk daran)(?:,? dass|:|,)?\s+(.+)$`)},
	{FactPlain, regexp.MustCompile(`(?i)^(?:por favor,? )?(?:recuerda|anota|no olvides)(?: que|:|,)?\s+(.+)$`)},
	{FactPlain, regexp.MustCompile(`(?i)^(?:s'il (?:te|vous) pla[iî]t,? )?(?:souviens-toi|rappelle-toi|note|n'oublie pas)(?: que|:|,)?\s+(.+)$`)},
	{FactPerson, regexp.MustCompile(`(?i)^(?:hi,? |hello,? )*(?:my name is|i am called|call me|i'm called|ich hei(?:ß|ss)e|me llamo|je m'appelle)\b.+$`)},
	{FactPerson, regexp.MustCompile(`^(?:我叫|我的名字(?:是|叫)|私の名前は|내 이름은|제 이름은).+$`)},
	{FactDecision, regexp.MustCompile(`(?i)^(?:so |then )?(?:we|i)(?:'ve| have)? (?:decided|agreed|chose|settled)\b.+$`)},
	{FactCommitment, regexp.MustCompile(`(?i)^.*\b(?:deadline|due) (?:is|on|by)\b.+$`)},
	{FactPreference, regexp.MustCompile(`(?i)^(?:please )?(?:always|never|from now on,?) .+$`)},
	{FactPreference, regexp.MustCompile(`(?i)^(?:i|we) (?:really )?(?:prefer|like|love|hate|dislike|don't like|want you to always) .+$`)},
	{FactPreference, regexp.MustCompile(`(?i)^(?:ich mag|ich bevorzuge|wir bevorzugen|prefiero|me gusta|je préfère|j'aime)\b.+$`)},
	{FactPreference, regexp.MustCompile(`^(?:我(?:更)?喜欢|我偏好|我讨厌|以后(?:都|请)).+$`)},
	{FactPlain, regexp.MustCompile(`(?i)^(?:my|our|mein|meine|unser|unsere|mi|nuestro|nuestra|mon|ma|notre) .{2,60}? (?:is|are|was|has changed to|changed to|ist|sind|es|son|est|sont) .+$`)},
	{FactPlain, regexp.MustCompile(`(?i)^(?:i|we) (?:live|work|study|moved|was born|were born|use) .+$`)},
	{FactPlain, regexp.MustCompile(`^(?:我的|我们的).{1,30}?是.+$`)},
	{FactPlain, regexp.MustCompile(`^(?:私の|内の|내|제|우리).{1,30}?(?:は|은|는|이|가)\s?.+$`)},
}

// sentenceEnd parts sentences. A full stop counts only before white space, so that numbers and names stay whole.
var sentenceEnd = regexp.MustCompile(`[.!]+\s+|[。！]+|\n+`)

const (
	minStatement = 4
	maxStatement = 500
)

// extractByRules finds, in what users said, sentences of a form in which people say what is worth keeping. Without a model, nothing is extracted from tool output:
// rules can't tell a fact from anything else there.
func extractByRules(said []Message) []NewFact {
	var out []NewFact
	for _, m := range said {
		if m.Speaker != "user" {
			continue
		}
		for _, sentence := range sentenceEnd.Split(m.Text, -1) {
			sentence = strings.TrimSpace(sentence)
			if len(sentence) < minStatement || len(sentence) > maxStatement || question(sentence) {
				continue
			}
			for _, p := range patterns {
				found := p.re.FindStringSubmatch(sentence)
				if found == nil {
					continue
				}
				statement := markdown.Normalize(strings.TrimRight(found[len(found)-1], ".。! "))
				if len(statement) >= minStatement {
					out = append(out, flushed(m, statement, p.kind, sentence))
				}
				break
			}
		}
	}
	return out
}

func question(s string) bool {
	return strings.HasSuffix(s, "?") || strings.HasSuffix(s, "？") || strings.HasSuffix(s, "吗") || strings.HasSuffix(s, "か")
}
