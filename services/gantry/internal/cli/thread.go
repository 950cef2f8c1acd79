package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
)

// Thread works with conversations.
type Thread struct {
	List    ThreadList    `cmd:"" default:"1" help:"List the conversations of a user with an agent."`
	Show    ThreadShow    `cmd:"" help:"Show the messages of a session."`
	Events  ThreadEvents  `cmd:"" help:"Show the journal of a session, one event a line."`
	Prompt  ThreadPrompt  `cmd:"" help:"Show what was in each request to the model, and from where."`
	Fork    ThreadFork    `cmd:"" help:"Make a new session that shares this one up to a sequence."`
	Rewind  ThreadRewind  `cmd:"" help:"Move a conversation back to what it was after an event. Undone by rewinding to the event before."`
	Replay  ThreadReplay  `cmd:"" help:"Make every request of a conversation again from its journal and show what would be different now. Exit code 1: something would."`
	Compare ThreadCompare `cmd:"" help:"Show where two runs differ, step by step."`
	Export  ThreadExport  `cmd:"" help:"Print the conversation as JSON Lines."`
	Delete  ThreadDelete  `cmd:"" help:"Remove a session's journal."`
}

// ThreadList lists threads.
type ThreadList struct{ Target }

// Run lists them.
func (c *ThreadList) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		return pages(func(token string) (string, error) {
			got, err := clients.Admin.ListThreads(ctx, &orchestratorv1.ListThreadsRequest{PageToken: token})
			if err != nil {
				return "", err
			}
			for _, h := range got.GetThreads() {
				if c.JSON {
					if err := env.JSON(h); err != nil {
						return "", err
					}
					continue
				}
				env.Line("%s  %s  %d events  %s", h.GetThread().GetSession(), h.GetUpdateTime().AsTime().Format("2006-01-02 15:04:05"), h.GetSeq(), oneLine(h.GetTitle(), maxShown))
			}
			return got.GetNextPageToken(), nil
		})
	})
}

// ThreadShow shows messages.
type ThreadShow struct{ Target }

// Run shows them.
func (c *ThreadShow) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		return pages(func(token string) (string, error) {
			got, err := clients.Admin.ListMessages(ctx, &orchestratorv1.ListMessagesRequest{PageToken: token})
			if err != nil {
				return "", err
			}
			for _, m := range got.GetMessages() {
				if c.JSON {
					if err := env.JSON(m); err != nil {
						return "", err
					}
					continue
				}
				env.Line("%d %s: %s", m.GetSeq(), strings.ToLower(strings.TrimPrefix(m.GetMessage().GetRole().String(), "ROLE_")), messageText(m.GetMessage()))
			}
			return got.GetNextPageToken(), nil
		})
	})
}

func messageText(m *threadv1.Message) string {
	var b strings.Builder
	for _, block := range m.GetBlocks() {
		b.WriteString(block.GetText())
		if call := block.GetToolCall(); call != nil {
			fmt.Fprintf(&b, "[calls %s %s]", call.GetName(), arguments(call.GetArgumentsJson()))
		}
		if res := block.GetToolResult(); res != nil {
			fmt.Fprintf(&b, "[%s %s: %s]", res.GetName(), statusWord(res), oneLine(res.GetText(), maxShown))
		}
	}
	return b.String()
}

// ThreadEvents shows the journal.
type ThreadEvents struct {
	Target
	After int64 `help:"Only events after this sequence."`
}

// Run shows it.
func (c *ThreadEvents) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		stream, err := clients.Threads.Scan(ctx, &threadv1.ScanRequest{AfterSeq: c.After})
		if err != nil {
			return err
		}
		for {
			msg, err := stream.Recv()
			if errors.Is(err, io.EOF) || msg.GetEnd() != nil {
				return nil
			}
			if err != nil {
				return err
			}
			if c.JSON {
				if err := env.JSON(msg.GetEvent()); err != nil {
					return err
				}
				continue
			}
			e := msg.GetEvent()
			env.Line("%6d  %s  %-24s step %d", e.GetSeq(), e.GetTime().AsTime().Format("15:04:05.000"), e.GetType(), e.GetStep())
		}
	})
}

// ThreadPrompt shows manifests of requests.
type ThreadPrompt struct{ Target }

// Run shows them.
func (c *ThreadPrompt) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Admin.ListRequests(ctx, &orchestratorv1.ListRequestsRequest{})
		if err != nil {
			return err
		}
		if c.JSON {
			return env.JSON(got)
		}
		for _, e := range got.GetRequests() {
			p := e.GetPayload().GetRequestPrepared()
			env.Line("event %d: %d of %d tokens, model %s, prompt %s", e.GetSeq(), p.GetTokens(), p.GetLimitTokens(), p.GetModel(), p.GetPromptSha256())
			for _, item := range p.GetItems() {
				env.Line("  %-14s %6d  %s %s", item.GetKind(), item.GetTokens(), item.GetSource(), item.GetNote())
			}
		}
		return nil
	})
}

// ThreadFork forks a session.
type ThreadFork struct {
	Target
	At int64  `help:"Last event that the fork shares. 0: all."`
	To string `help:"Session of the fork. Empty: made."`
}

// Run forks it.
func (c *ThreadFork) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Admin.ForkThread(ctx, &orchestratorv1.ForkThreadRequest{AtSeq: c.At, ToSession: c.To})
		if err != nil {
			return err
		}
		if c.JSON {
			return env.JSON(got)
		}
		env.Line("%s", got.GetThread().GetThread().GetSession())
		return nil
	})
}

// ThreadExport exports a session.
type ThreadExport struct{ Target }

// Run prints its lines.
func (c *ThreadExport) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		stream, err := clients.Admin.ExportThread(ctx, &orchestratorv1.ExportThreadRequest{IncludeToolResults: true})
		if err != nil {
			return err
		}
		for {
			msg, err := stream.Recv()
			if errors.Is(err, io.EOF) || msg.GetEnd() != nil {
				return nil
			}
			if err != nil {
				return err
			}
			if _, err := io.WriteString(env.Out, msg.GetLines()); err != nil {
				return err
			}
		}
	})
}

// ThreadDelete removes a session.
type ThreadDelete struct{ Target }

// Run removes it.
func (c *ThreadDelete) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Admin.DeleteThread(ctx, &orchestratorv1.DeleteThreadRequest{})
		if err != nil {
			return err
		}
		if c.JSON {
			return env.JSON(got)
		}
		if got.GetDeleted() {
			env.Line("deleted")
		} else {
			env.Line("there was none")
		}
		return nil
	})
}
