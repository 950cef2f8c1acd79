package tools

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

// Bounds of thread_history.
const (
	historyDefault  = 20
	historyMax      = 200
	historyMaxChars = 2000 // of one message
)

type threadListIn struct {
	PageToken string `json:"page_token,omitempty" jsonschema:"token told by the call before"`
}

type threadHistoryIn struct {
	Session string `json:"session,omitempty" jsonschema:"session to read, as told by thread_list; the current one when left out"`
	Last    int    `json:"last,omitempty" jsonschema:"most messages, counted from the end; 20 when left out"`
}

func (env Env) threadTools() []tool.Tool {
	read := func(name, description string) tool.Spec {
		return tool.Spec{Name: name, Description: description, EffectKind: tool.EffectNone, ReadOnly: true, ConcurrencySafe: true}
	}
	all := []tool.Tool{
		tool.Func(read("thread_list", "List the earlier conversations of this user with this agent."), env.threadList),
		tool.Func(read("thread_history", "Read the messages of a conversation of this user."), env.threadHistory),
	}
	if env.Memory != nil {
		all = append(all, tool.Func(read("thread_search", "Search the messages of this user's conversations."), env.threadSearch))
	}
	return all
}

func (env Env) threadSearch(ctx context.Context, _ tool.Call, in searchIn) (tool.Result, error) {
	got, err := env.Memory.SearchThreads(ctx, &memoryv1.SearchThreadsRequest{Query: in.Query, PageSize: pageSize(in.Limit)})
	if err != nil {
		return tool.Result{}, err
	}
	return hits(got.GetHits(), got.GetFreshness(), "No message fits."), nil
}

func (env Env) threadList(ctx context.Context, _ tool.Call, in threadListIn) (tool.Result, error) {
	got, err := env.Threads.List(ctx, &threadv1.ListRequest{PageToken: in.PageToken})
	if err != nil {
		return tool.Result{}, err
	}
	var b strings.Builder
	for _, h := range got.GetHeads() {
		fmt.Fprintf(&b, "%s  %s  %s\n", h.GetThread().GetSession(), h.GetUpdateTime().AsTime().Format("2006-01-02 15:04"), h.GetTitle())
	}
	if len(got.GetHeads()) == 0 {
		b.WriteString("There are no conversations.")
	}
	if got.GetNextPageToken() != "" {
		fmt.Fprintf(&b, "[more follows: call again with page_token=%s]", got.GetNextPageToken())
	}
	return tool.OK(strings.TrimSuffix(b.String(), "\n")), nil
}

func (env Env) threadHistory(ctx context.Context, _ tool.Call, in threadHistoryIn) (tool.Result, error) {
	if id, ok := identity.FromContext(ctx); ok && in.Session != "" {
		id.Session = in.Session // the store refuses nothing here: the thread stays within tenant, agent and user
		ctx = identity.NewContext(ctx, id)
	}
	want := historyDefault
	if in.Last > 0 {
		want = min(in.Last, historyMax)
	}
	stream, err := env.Threads.Scan(ctx, &threadv1.ScanRequest{Types: []string{"input/received", "model/ended"}})
	if err != nil {
		return tool.Result{}, err
	}
	var last []string // the newest messages, at most want
	for {
		item, err := stream.Recv()
		if err != nil {
			return tool.Result{}, err // the end message comes before the end of the stream
		}
		if item.GetEnd() != nil {
			break
		}
		if line := historyLine(item.GetEvent()); line != "" {
			if last = append(last, line); len(last) > want {
				last = last[1:]
			}
		}
	}
	if len(last) == 0 {
		return tool.OK("The conversation has no messages."), nil
	}
	return tool.OK(strings.Join(last, "\n")), nil
}

func historyLine(e *threadv1.Event) string {
	msg, who := e.GetPayload().GetInputReceived().GetMessage(), "user"
	if m := e.GetPayload().GetModelEnded().GetMessage(); m != nil {
		msg, who = m, "assistant"
	}
	var text strings.Builder
	for _, b := range msg.GetBlocks() {
		text.WriteString(b.GetText())
		if c := b.GetToolCall(); c != nil {
			fmt.Fprintf(&text, "[calls %s]", c.GetName())
		}
	}
	if text.Len() == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s: %s", e.GetSeq(), who, cut(text.String(), historyMaxChars))
}

// cut shortens a text to a number of characters and says so.
func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + " […]"
}
