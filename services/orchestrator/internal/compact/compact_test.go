package compact_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/compact"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

// talk makes a conversation: u is the user, a the agent, and a digit the agent with that many calls, answered by the next message.
func talk(shape string, words int) []loop.Entry {
	var out []loop.Entry
	add := func(m *threadv1.Message) { out = append(out, loop.Entry{Message: m, Seq: int64(len(out) + 1)}) }
	text := strings.TrimSpace(strings.Repeat("word ", words))
	for i, c := range shape {
		id := fmt.Sprintf("m%d", i)
		switch c {
		case 'u':
			add(loop.Text(id, threadv1.Role_ROLE_USER, "", text))
		case 'a':
			add(loop.Text(id, threadv1.Role_ROLE_ASSISTANT, "", text))
		case 's':
			add(loop.Text(id, threadv1.Role_ROLE_USER, loop.OriginSummary, text))
		default:
			call, result := &threadv1.Message{Id: id, Role: threadv1.Role_ROLE_ASSISTANT}, &threadv1.Message{Id: id + "r", Role: threadv1.Role_ROLE_TOOL}
			for n := range int(c - '0') {
				call.Blocks = append(call.Blocks, &threadv1.ContentBlock{Block: &threadv1.ContentBlock_ToolCall{ToolCall: &threadv1.ToolCall{Id: fmt.Sprint(id, n), Name: "read", ArgumentsJson: "{}"}}})
				result.Blocks = append(result.Blocks, &threadv1.ContentBlock{Block: &threadv1.ContentBlock_ToolResult{ToolResult: &threadv1.ToolResult{CallId: fmt.Sprint(id, n), Name: "read", Status: threadv1.ToolStatus_TOOL_STATUS_OK, Text: text}}})
			}
			add(call)
			add(result)
		}
	}
	return out
}

func TestDue(t *testing.T) {
	for name, c := range map[string]struct {
		entries []loop.Entry
		limits  compact.Limits
		want    string
	}{
		"short":                       {talk(strings.Repeat("ua", 24), 1), compact.Limits{}, ""},
		"fifty messages":              {talk(strings.Repeat("ua", 25), 1), compact.Limits{}, compact.TriggerMessages},
		"by count switched off":       {talk(strings.Repeat("ua", 25), 1), compact.Limits{Messages: -1}, ""},
		"many tokens":                 {talk("uaua", 20_000), compact.Limits{Window: 100_000}, compact.TriggerTokens},
		"a small window":              {talk("uaua", 1_000), compact.Limits{Window: 8_000}, compact.TriggerTokens},
		"just cut, and still large":   {talk("sua", 60_000), compact.Limits{}, ""},
		"rules and tools are counted": {talk("uaua", 10), compact.Limits{Window: 30_000, Fixed: 10_000}, compact.TriggerTokens},
	} {
		t.Run(name, func(t *testing.T) {
			if got, due := compact.Due(c.entries, c.limits); got != c.want || due != (c.want != "") {
				t.Errorf("due is %q, %v", got, due)
			}
		})
	}
}

func TestCut(t *testing.T) {
	for name, c := range map[string]struct {
		shape  string
		words  int
		limits compact.Limits
		want   int
	}{
		"keeps twenty":                         {strings.Repeat("ua", 25), 1, compact.Limits{}, 30},
		"keeps fewer when they are large":      {strings.Repeat("ua", 25), 1_000, compact.Limits{}, 44},
		"nothing to cut":                       {"ua", 1, compact.Limits{}, 0},
		"only a summary in front":              {"sua", 1, compact.Limits{Keep: 2}, 0},
		"a cut on results goes before calls":   {"uauau3a", 1, compact.Limits{Keep: 2}, 4},
		"calls at the very front go with it":   {"3aua", 1, compact.Limits{Keep: 3}, 2},
		"the last turn stays when it is small": {"uaua" + "1111", 1, compact.Limits{Keep: 2}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			if got := compact.Cut(talk(c.shape, c.words), c.limits); got != c.want {
				t.Errorf("cut at %d, want %d", got, c.want)
			}
		})
	}
}

// TestNoCutPartsACallFromItsResult tries every shape, trigger and number of messages to keep.
func TestNoCutPartsACallFromItsResult(t *testing.T) {
	for _, shape := range []string{"u1a", "u1111", "uau2au3a", "u4444444444", "ua1ua2ua3ua4", strings.Repeat("u1a", 20), "1111ua", "s1u2"} {
		for _, words := range []int{1, 300, 3_000} {
			entries := talk(shape, words)
			for keep := 1; keep <= len(entries); keep++ {
				for _, window := range []int{2_000, 32_000, 200_000} {
					cut := compact.Cut(entries, compact.Limits{Keep: keep, Window: window})
					if cut > 0 && cut < len(entries) && entries[cut].Message.GetRole() == threadv1.Role_ROLE_TOOL {
						t.Fatalf("%s, keep %d of %d, window %d: the cut at %d parts a pair", shape, keep, len(entries), window, cut)
					}
				}
			}
		}
	}
}

func answers(texts ...string) (compact.Generate, *[]model.Request) {
	var seen []model.Request
	return func(_ context.Context, req model.Request) (model.Response, error) {
		seen = append(seen, req)
		if len(texts) == 0 {
			return model.Response{}, errors.New("no model")
		}
		text := texts[0]
		if len(texts) > 1 {
			texts = texts[1:]
		}
		return model.Response{Message: model.Assistant(model.Text(text))}, nil
	}, &seen
}

func TestSummariseTakesEarlierSummariesIn(t *testing.T) {
	generate, seen := answers("both")
	got, err := compact.Summarise(context.Background(), talk("su1a", 5), 0, generate)
	if err != nil || got != "both" {
		t.Fatalf("%q, %v", got, err)
	}
	text := (*seen)[0].Messages[0].Text()
	for _, want := range []string{"Earlier summary: word", "User: word", "Agent calls read({})", "Tool read (ok): word"} {
		if !strings.Contains(text, want) {
			t.Errorf("the summariser does not see %q:\n%s", want, text)
		}
	}
}

func TestSummariseWorksInPieces(t *testing.T) {
	generate, seen := answers("one", "two", "three")
	got, err := compact.Summarise(context.Background(), talk(strings.Repeat("ua", 30), 200), 6_000, generate)
	if err != nil || got != "three" || len(*seen) < 3 {
		t.Fatalf("%q after %d requests, %v", got, len(*seen), err)
	}
	for i, req := range *seen {
		if n := len(req.Messages[0].Text()); n/4 > 6_000 {
			t.Errorf("request %d has about %d tokens", i, n/4)
		}
	}
	if !strings.Contains((*seen)[1].Messages[0].Text(), "<summary_so_far>\none") {
		t.Error("the second piece does not build on the first")
	}
}

func TestNoSummaryIsAnError(t *testing.T) {
	for name, texts := range map[string][]string{"failed": nil, "blank": {"  \n"}} {
		t.Run(name, func(t *testing.T) {
			generate, _ := answers(texts...)
			if got, err := compact.Summarise(context.Background(), talk("ua", 5), 0, generate); err == nil {
				t.Errorf("the summary is %q", got)
			}
		})
	}
}

func TestMessageQuotesTheRequestThatTheRunWorksOn(t *testing.T) {
	entries := talk("u1111", 3)
	m := compact.Message(entries[:5], entries[5:], "so far")
	if text := loop.TextOf(m); !strings.Contains(text, "so far") || !strings.Contains(text, "last request, in full:\nword word word") {
		t.Errorf("the message is %q", text)
	}
	if m.GetOrigin() != loop.OriginSummary || !compact.IsSummary(m) {
		t.Error("the message is no summary")
	}
	if text := loop.TextOf(compact.Message(entries[:2], talk("ua", 1), "x")); strings.Contains(text, "in full") {
		t.Errorf("a request that stays is quoted: %q", text)
	}
}

func TestByRulesHasAHeadlineOfEachMessage(t *testing.T) {
	got := compact.ByRules(talk("su2a", 100))
	if n := strings.Count(got, "\n- "); n < 4 || len(got) > 8_100 {
		t.Errorf("%d headlines, %d bytes:\n%s", n, len(got), got)
	}
}
