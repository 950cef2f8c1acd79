package rpc

import (
	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	"github.com/gantry-agents/gantry/services/memory/internal/memory"
)

func kindIn(k memoryv1.FactKind) memory.FactKind {
	if k == memoryv1.FactKind_FACT_KIND_UNSPECIFIED {
		return memory.FactPlain
	}
	return memory.FactKind(k)
}

func provenanceIn(p *memoryv1.Provenance) memory.Provenance {
	return memory.Provenance{
		Session: p.GetSession(), Seq: p.GetSeq(), Trust: memory.Trust(p.GetTrust()), Source: p.GetSource(), Evidence: p.GetEvidence(), Speaker: p.GetSpeaker(),
	}
}

func factOut(f memory.Fact) *memoryv1.Fact {
	p := f.Provenance
	return &memoryv1.Fact{
		Id: f.ID, Text: f.Text, Kind: memoryv1.FactKind(f.Kind), Topic: f.Topic, Path: f.Path, Line: int64(f.Line), ContentSha256: f.Hash, SourceFactIds: f.From,
		Provenance: &memoryv1.Provenance{
			Session: p.Session, Agent: p.Agent, User: p.User, Seq: p.Seq, Time: timeOut(p.Time), Trust: memoryv1.Trust(p.Trust),
			Source: p.Source, Evidence: p.Evidence, Speaker: p.Speaker,
		},
	}
}

func savedOut(facts []memory.Saved) []*memoryv1.SavedFact {
	var out []*memoryv1.SavedFact
	for _, f := range facts {
		out = append(out, &memoryv1.SavedFact{Fact: factOut(f.Fact), Duplicate: f.Duplicate})
	}
	return out
}
