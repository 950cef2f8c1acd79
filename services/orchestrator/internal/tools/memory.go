package tools

import (
	"context"
	"fmt"
	"strings"

	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

const memoryPageSize = 10

type searchIn struct {
	Query string `json:"query" jsonschema:"what to look for, in words"`
	Limit int32  `json:"limit,omitempty" jsonschema:"most hits; 10 when left out, at most 50"`
}

type memoryGetIn struct {
	Path      string `json:"path,omitempty" jsonschema:"memory file, for example MEMORY.md or memory/2026-01-31.md; MEMORY.md when left out"`
	StartLine int64  `json:"start_line,omitempty" jsonschema:"first line, from 1"`
	EndLine   int64  `json:"end_line,omitempty" jsonschema:"last line"`
}

type memorySaveIn struct {
	Content string `json:"content" jsonschema:"the fact to remember, as one sentence that can be understood by itself"`
	Topic   string `json:"topic,omitempty" jsonschema:"a short headline for it"`
}

func (env Env) memoryTools() []tool.Tool {
	read := func(name, description string) tool.Spec {
		return tool.Spec{Name: name, Description: description, EffectKind: tool.EffectNone, ReadOnly: true, ConcurrencySafe: true}
	}
	save := tool.Spec{Name: "memory_save", EffectKind: tool.EffectMemory, ConcurrencySafe: true,
		Description: "Remember a fact for later sessions of this user: a preference, a decision, a name, a date."}
	return []tool.Tool{
		tool.Func(read("memory_search", "Search what was remembered in earlier sessions."), env.memorySearch),
		tool.Func(read("memory_get", "Read lines of a memory file."), env.memoryGet),
		tool.Func(save, env.memorySave),
	}
}

func (env Env) memorySearch(ctx context.Context, _ tool.Call, in searchIn) (tool.Result, error) {
	got, err := env.Memory.Search(ctx, &memoryv1.SearchRequest{Query: in.Query, PageSize: pageSize(in.Limit)})
	if err != nil {
		return tool.Result{}, err
	}
	return hits(got.GetHits(), got.GetFreshness(), "Nothing in memory fits."), nil
}

func (env Env) memoryGet(ctx context.Context, _ tool.Call, in memoryGetIn) (tool.Result, error) {
	got, err := env.Memory.Get(ctx, &memoryv1.GetRequest{Path: in.Path, StartLine: max(in.StartLine, 0), EndLine: max(in.EndLine, 0)})
	if err != nil {
		return tool.Result{}, err
	}
	var b strings.Builder
	for _, line := range got.GetLines() {
		fmt.Fprintf(&b, "%d|%s\n", line.GetNumber(), line.GetText())
	}
	if len(got.GetLines()) == 0 {
		fmt.Fprintf(&b, "[%s is empty]", got.GetPath())
	}
	if got.GetMore() {
		fmt.Fprintf(&b, "[more follows; the file has %d lines]", got.GetTotalLines())
	}
	return tool.OK(strings.TrimSuffix(b.String(), "\n")), nil
}

func (env Env) memorySave(ctx context.Context, _ tool.Call, in memorySaveIn) (tool.Result, error) {
	fact := &memoryv1.NewFact{Text: in.Content, Topic: in.Topic, Provenance: &memoryv1.Provenance{
		Session: env.Thread.Session, Trust: memoryv1.Trust_TRUST_AGENT, Source: "run:" + env.RunID,
	}}
	// Promoted, it is part of the very next request of any session, without a search.
	got, err := env.Memory.SaveFacts(ctx, &memoryv1.SaveFactsRequest{Facts: []*memoryv1.NewFact{fact}, Promote: true})
	if err != nil {
		return tool.Result{}, err
	}
	saved := got.GetFacts()[0]
	text := fmt.Sprintf("Remembered in %s.", got.GetPath())
	if saved.GetDuplicate() {
		text = fmt.Sprintf("This was remembered already (%s, line %d).", saved.GetFact().GetPath(), saved.GetFact().GetLine())
	}
	return tool.OK(text).With("fact_id", saved.GetFact().GetId()).With("cursor", got.GetCursor()), nil
}

func pageSize(limit int32) int32 {
	if limit <= 0 {
		return memoryPageSize
	}
	return min(limit, 50)
}

// hits shows search results: where, and what stands there.
func hits(found []*memoryv1.Hit, fresh *memoryv1.Freshness, none string) tool.Result {
	var b strings.Builder
	if len(found) == 0 {
		b.WriteString(none + "\n")
	}
	for _, h := range found {
		where := fmt.Sprintf("%s#%d", h.GetPath(), h.GetLine())
		if h.GetSession() != "" && h.GetPath() == "" {
			where = fmt.Sprintf("session %s, event %d, %s", h.GetSession(), h.GetSeq(), h.GetSpeaker())
		}
		fmt.Fprintf(&b, "%s: %s\n", where, strings.TrimSpace(h.GetSnippet()))
	}
	if fresh != nil && !fresh.GetCurrent() {
		fmt.Fprintf(&b, "[the index is behind by %d files: this may not be everything]\n", fresh.GetPendingFiles())
	}
	return tool.OK(strings.TrimSuffix(b.String(), "\n"))
}
