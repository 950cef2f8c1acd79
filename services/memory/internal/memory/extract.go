package memory

import (
	"github.com/gantry-agents/gantry/libs/model/offline"
	"github.com/gantry-agents/gantry/services/memory/internal/markdown"
)

// offlineKinds are the kinds of the facts that the offline provider finds.
var offlineKinds = map[offline.FactKind]FactKind{
	offline.FactPreference: FactPreference, offline.FactDecision: FactDecision, offline.FactIdentity: FactPerson,
}

// extractByRules finds, in what users said, sentences of a form in which people say what is worth keeping. Nothing is extracted from tool output: rules can't
// tell a fact from anything else there.
func extractByRules(said []Message) []NewFact {
	var out []NewFact
	for _, m := range said {
		if m.Speaker != "user" {
			continue
		}
		for _, f := range offline.ExtractFacts(m.Text) {
			if statement := markdown.Normalize(f.Text); statement != "" {
				out = append(out, flushed(m, statement, offlineKinds[f.Kind], f.Text))
			}
		}
	}
	return out
}
