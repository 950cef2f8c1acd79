package cli

import (
	"context"
	"strings"

	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
)

// Memory works with what agents remember.
type Memory struct {
	Search      MemorySearch      `cmd:"" help:"Search facts and memory files."`
	Save        MemorySave        `cmd:"" help:"Remember a fact."`
	Show        MemoryShow        `cmd:"" help:"Show a memory file."`
	Consolidate MemoryConsolidate `cmd:"" help:"Merge what was saved into MEMORY.md now."`
	Status      MemoryStatus      `cmd:"" help:"Show what is pending and behind."`
	Rebuild     MemoryRebuild     `cmd:"" help:"Rebuild the index from the files."`
}

// MemorySearch searches.
type MemorySearch struct {
	Target
	Query   []string `arg:"" help:"What to look for, in words."`
	Threads bool     `help:"Search the messages of conversations instead."`
	Limit   int32    `help:"Most hits." default:"10"`
}

// Run searches.
func (c *MemorySearch) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		query := strings.Join(c.Query, " ")
		var hits []*memoryv1.Hit
		if c.Threads {
			got, err := clients.Memory.SearchThreads(ctx, &memoryv1.SearchThreadsRequest{Query: query, PageSize: c.Limit})
			if err != nil {
				return err
			}
			hits = got.GetHits()
		} else {
			got, err := clients.Memory.Search(ctx, &memoryv1.SearchRequest{Query: query, PageSize: c.Limit})
			if err != nil {
				return err
			}
			hits = got.GetHits()
		}
		for _, h := range hits {
			if c.JSON {
				if err := env.JSON(h); err != nil {
					return err
				}
				continue
			}
			where := h.GetPath()
			if where == "" {
				where = "session " + h.GetSession()
			}
			env.Line("%s:%d  %.2f  %s", where, max(h.GetLine(), h.GetSeq()), h.GetScore(), oneLine(h.GetSnippet(), 2*maxShown))
		}
		if len(hits) == 0 && !c.JSON {
			env.Line("nothing found")
		}
		return nil
	})
}

// MemorySave saves a fact.
type MemorySave struct {
	Target
	Text []string `arg:"" help:"The fact, in one sentence."`
}

// Run saves it.
func (c *MemorySave) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Memory.SaveFacts(ctx, &memoryv1.SaveFactsRequest{Facts: []*memoryv1.NewFact{{Text: strings.Join(c.Text, " ")}}})
		if err != nil {
			return err
		}
		if c.JSON {
			return env.JSON(got)
		}
		word := "saved"
		if got.GetFacts()[0].GetDuplicate() {
			word = "known already"
		}
		env.Line("%s in %s", word, got.GetFacts()[0].GetFact().GetPath())
		return nil
	})
}

// MemoryShow shows a file.
type MemoryShow struct {
	Target
	Path string `arg:"" optional:"" default:"MEMORY.md" help:"Memory file."`
}

// Run shows it.
func (c *MemoryShow) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Memory.Get(ctx, &memoryv1.GetRequest{Path: c.Path})
		if err != nil {
			return err
		}
		if c.JSON {
			return env.JSON(got)
		}
		for _, l := range got.GetLines() {
			env.Line("%s", l.GetText())
		}
		return nil
	})
}

// MemoryConsolidate consolidates.
type MemoryConsolidate struct {
	Target
	DryRun bool `name:"dry-run" help:"Show what would change."`
}

// Run consolidates.
func (c *MemoryConsolidate) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Memory.Consolidate(ctx, &memoryv1.ConsolidateRequest{DryRun: c.DryRun})
		if err != nil {
			return err
		}
		if c.JSON {
			return env.JSON(got)
		}
		env.Line("%s", got.GetDiff())
		return nil
	})
}

// MemoryStatus shows the state of memory.
type MemoryStatus struct{ Target }

// Run shows it, always as JSON: it is a record of numbers.
func (c *MemoryStatus) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Memory.GetStatus(ctx, &memoryv1.GetStatusRequest{})
		if err != nil {
			return err
		}
		return env.JSON(got)
	})
}

// MemoryRebuild rebuilds the index.
type MemoryRebuild struct{ Target }

// Run rebuilds it.
func (c *MemoryRebuild) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Memory.Rebuild(ctx, &memoryv1.RebuildRequest{})
		if err != nil {
			return err
		}
		return env.JSON(got)
	})
}
