package orchestratortest

import (
	"errors"
	"io"
	"strings"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
)

var threadCases = map[string]func(testkit.T, *kit){
	"list and describe":           testThreads,
	"manifests of requests":       testRequests,
	"preview is what is sent":     testPreview,
	"fork":                        testFork,
	"no fork inside a run":        testNoFork,
	"export":                      testExport,
	"delete, and begin again":     testDelete,
	"not while a run works":       testDeleteBusy,
	"compact on request":          testCompactNow,
	"a thread that is not there":  testNoThread,
	"a call without a session id": testNoSession,
}

func testThreads(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	run := k.call(t, ctx, text("hello\nsecond line"))
	list, err := k.threads.ListThreads(ctx, &orchestratorv1.ListThreadsRequest{})
	if err != nil || len(list.GetThreads()) != 1 || list.GetThreads()[0].GetTitle() != "hello" {
		t.Fatalf("threads: %v, %v", list, err)
	}
	got, err := k.threads.GetThread(ctx, &orchestratorv1.GetThreadRequest{})
	if err != nil || got.GetLatestRun().GetId() != run.GetId() || got.GetThread().GetOpenRunId() != "" {
		t.Errorf("thread: %v, %v", got, err)
	}
}

func testRequests(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	run := k.call(t, ctx, text("keep it"))
	k.call(t, ctx, text("hello"))
	list, err := k.threads.ListRequests(ctx, &orchestratorv1.ListRequestsRequest{RunId: run.GetId()})
	if err != nil || len(list.GetRequests()) != 2 {
		t.Fatalf("requests: %v, %v", list, err)
	}
	p := list.GetRequests()[0].GetPayload().GetRequestPrepared()
	if len(p.GetPromptSha256()) != 64 || len(p.GetItems()) == 0 || p.GetTokens() == 0 || p.GetLimitTokens() == 0 || len(p.GetTools()) == 0 || p.GetModel() == "" {
		t.Errorf("the manifest says too little: %v", p)
	}
}

func testPreview(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	preview, err := k.runs.PreviewContext(ctx, &orchestratorv1.PreviewContextRequest{Input: text("hello")})
	if err != nil {
		t.Fatalf("preview: %v", err)
	}
	if preview.GetSystem() == "" || len(preview.GetMessages()) == 0 {
		t.Errorf("the preview is %v", preview)
	}
	if _, err := k.threads.GetThread(ctx, &orchestratorv1.GetThreadRequest{}); !errors.Is(err, errdefs.ErrNotFound) {
		t.Errorf("the preview left a thread behind: %v", err)
	}
	k.call(t, ctx, text("hello"))
	list, err := k.threads.ListRequests(ctx, &orchestratorv1.ListRequestsRequest{})
	if err != nil {
		t.Fatalf("requests: %v", err)
	}
	if got := list.GetRequests()[0].GetPayload().GetRequestPrepared().GetPromptSha256(); got != preview.GetManifest().GetPromptSha256() {
		t.Errorf("the preview has hash %s, what was sent %s", preview.GetManifest().GetPromptSha256(), got)
	}
}

func testFork(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	first := k.call(t, ctx, text("hello"))
	k.call(t, ctx, text("keep it"))
	fork, err := k.threads.ForkThread(ctx, &orchestratorv1.ForkThreadRequest{AtSeq: first.GetLastSeq()})
	if err != nil {
		t.Fatalf("fork: %v", err)
	}
	id, _ := identity.FromContext(ctx)
	id.Session = fork.GetThread().GetThread().GetSession()
	forked := k.as(t, id)
	list, err := k.threads.ListMessages(forked, &orchestratorv1.ListMessagesRequest{})
	if err != nil || len(list.GetMessages()) != 2 {
		t.Errorf("the fork has %v, %v", list.GetMessages(), err)
	}
	wantState(t, k.call(t, forked, text("hello")), completed, "done")
	list, err = k.threads.ListMessages(ctx, &orchestratorv1.ListMessagesRequest{})
	if err != nil || len(list.GetMessages()) != 6 {
		t.Errorf("the thread has %d messages, %v", len(list.GetMessages()), err)
	}
}

func testNoFork(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	r := k.call(t, ctx, text("keep it"))
	_, err := k.threads.ForkThread(ctx, &orchestratorv1.ForkThreadRequest{AtSeq: r.GetFirstSeq() + 3})
	wantError(t, err, errdefs.ErrFailedPrecondition, "NO_FORK_POINT")
	_, err = k.threads.ForkThread(ctx, &orchestratorv1.ForkThreadRequest{AtSeq: 1000})
	wantError(t, err, errdefs.ErrOutOfRange, "CURSOR_INVALID")
}

func testExport(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.call(t, ctx, text("keep it"))
	for results, want := range map[bool]int{false: 3, true: 4} {
		s, err := k.threads.ExportThread(ctx, &orchestratorv1.ExportThreadRequest{IncludeToolResults: results})
		if err != nil {
			t.Fatalf("export: %v", err)
		}
		lines, end := 0, int64(0)
		for {
			m, err := s.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("receive: %v", err)
			}
			lines += strings.Count(m.GetLines(), "\n")
			if m.GetEnd() != nil {
				end = m.GetEnd().GetMessages()
			}
		}
		if lines != want || end != int64(want) {
			t.Errorf("%d lines, the end says %d, want %d", lines, end, want)
		}
	}
}

func testDelete(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	r := k.call(t, ctx, text("hello"))
	for i, want := range []bool{true, false} {
		got, err := k.threads.DeleteThread(ctx, &orchestratorv1.DeleteThreadRequest{})
		if err != nil || got.GetDeleted() != want {
			t.Errorf("delete %d: %v, %v", i, got, err)
		}
	}
	_, err := k.runs.GetRun(ctx, &orchestratorv1.GetRunRequest{RunId: r.GetId()})
	wantError(t, err, errdefs.ErrNotFound, "RUN_NOT_FOUND")
	k.call(t, ctx, text("hello"))
	list, err := k.threads.ListMessages(ctx, &orchestratorv1.ListMessagesRequest{})
	if err != nil || len(list.GetMessages()) != 2 {
		t.Errorf("the new thread has %v, %v", list.GetMessages(), err)
	}
}

func testDeleteBusy(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	s, run := k.hold(t, ctx)
	_, err := k.threads.DeleteThread(ctx, &orchestratorv1.DeleteThreadRequest{})
	wantError(t, err, errdefs.ErrAborted, "THREAD_BUSY")
	_, err = k.threads.CompactThread(ctx, &orchestratorv1.CompactThreadRequest{})
	wantError(t, err, errdefs.ErrAborted, "THREAD_BUSY")
	k.cancel(t, ctx, run)
	read(t, s)
}

func testCompactNow(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	for range 4 {
		k.call(t, ctx, text("hello "+strings.Repeat("long ", 100)))
	}
	testkitEventually(t, func() bool { // the last run's thread may just be being given up
		got, err := k.threads.CompactThread(ctx, &orchestratorv1.CompactThreadRequest{KeepMessages: 2})
		return err == nil && got.GetCompaction().GetTrigger() == "requested"
	})
	now, err := k.threads.ListMessages(ctx, &orchestratorv1.ListMessagesRequest{VisibleOnly: true})
	if err != nil || len(now.GetMessages()) != 3 {
		t.Errorf("the model sees %d messages, %v", len(now.GetMessages()), err)
	}
	wantState(t, k.call(t, ctx, text("hello")), completed, "done")
}

func testNoThread(t testkit.T, k *kit) {
	_, err := k.threads.GetThread(k.ctx(t), &orchestratorv1.GetThreadRequest{})
	wantError(t, err, errdefs.ErrNotFound, "THREAD_NOT_FOUND")
	_, err = k.threads.ListMessages(k.ctx(t), &orchestratorv1.ListMessagesRequest{})
	wantError(t, err, errdefs.ErrNotFound, "THREAD_NOT_FOUND")
}

func testNoSession(t testkit.T, k *kit) {
	ctx := k.as(t, identity.Identity{User: "u"})
	_, err := k.runs.GetRun(ctx, &orchestratorv1.GetRunRequest{RunId: "latest"})
	wantError(t, err, errdefs.ErrInvalidArgument, "IDENTITY_REQUIRED")
	_, err = k.threads.ListMessages(ctx, &orchestratorv1.ListMessagesRequest{})
	wantError(t, err, errdefs.ErrInvalidArgument, "IDENTITY_REQUIRED")
}

var agentCases = map[string]func(testkit.T, *kit){
	"put, get, list, call, delete": testAgentLife,
	"revisions":                    testAgentRevision,
	"a bad definition":             testBadDefinition,
	"tools and what removed them":  testListTools,
	"models, the default first":    testListModels,
	"skills":                       testSkills,
}

func testAgentLife(t testkit.T, k *kit) {
	ctx := k.as(t, identity.Identity{User: "u", Session: "agent-life"})
	put, err := k.agents.PutAgent(ctx, &orchestratorv1.PutAgentRequest{Id: "poet", Spec: &orchestratorv1.AgentSpec{
		Description: "writes", Instructions: "You are a poet.", MaxSteps: 7, DenyTools: []string{"write_file"}, Files: map[string][]byte{"knowledge/KNOWLEDGE.md": []byte("Roses are red.")},
	}})
	if err != nil || put.GetAgent().GetId() != "poet" || put.GetAgent().GetSpec().GetMaxSteps() != 7 {
		t.Fatalf("put: %v, %v", put, err)
	}
	got, err := k.agents.GetAgent(ctx, &orchestratorv1.GetAgentRequest{Id: "poet"})
	if err != nil || got.GetAgent().GetSpec().GetInstructions() != "You are a poet." || got.GetAgent().GetDescription() != "writes" {
		t.Errorf("get: %v, %v", got, err)
	}
	list, err := k.agents.ListAgents(ctx, &orchestratorv1.ListAgentsRequest{})
	found := false
	for _, a := range list.GetAgents() {
		found = found || a.GetId() == "poet"
	}
	if err != nil || !found {
		t.Errorf("list: %v, %v", list, err)
	}
	call := k.as(t, identity.Identity{Agent: "poet", User: "u", Session: "agent-life"})
	preview, err := k.runs.PreviewContext(call, &orchestratorv1.PreviewContextRequest{Input: text("hello")})
	if err != nil || !contains(preview.GetSystem(), "You are a poet.") {
		t.Errorf("preview: %v, %v", preview, err)
	}
	if r := read(t, k.stream(t, call, text("keep it"))); r.results()[0].GetReason() != "TOOL_UNKNOWN" {
		t.Errorf("results: %v", r.results())
	}
	if _, err := k.agents.DeleteAgent(ctx, &orchestratorv1.DeleteAgentRequest{Id: "poet"}); err != nil {
		t.Errorf("delete: %v", err)
	}
	_, err = k.agents.GetAgent(ctx, &orchestratorv1.GetAgentRequest{Id: "poet"})
	wantError(t, err, errdefs.ErrNotFound, "AGENT_NOT_FOUND")
}

func testAgentRevision(t testkit.T, k *kit) {
	ctx := k.as(t, identity.Identity{User: "u", Session: "revisions"})
	spec := &orchestratorv1.AgentSpec{Instructions: "one"}
	first, err := k.agents.PutAgent(ctx, &orchestratorv1.PutAgentRequest{Id: "revised", Spec: spec, IfRevision: "0"})
	if err != nil {
		t.Fatalf("put: %v", err)
	}
	if _, err := k.agents.PutAgent(ctx, &orchestratorv1.PutAgentRequest{Id: "revised", Spec: spec, IfRevision: "0"}); !errors.Is(err, errdefs.ErrAborted) {
		t.Errorf("a second creation: %v", err)
	}
	spec.Instructions = "two"
	if _, err := k.agents.PutAgent(ctx, &orchestratorv1.PutAgentRequest{Id: "revised", Spec: spec, IfRevision: first.GetAgent().GetRevision()}); err != nil {
		t.Errorf("by revision: %v", err)
	}
	if _, err := k.agents.PutAgent(ctx, &orchestratorv1.PutAgentRequest{Id: "revised", Spec: spec, IfRevision: first.GetAgent().GetRevision()}); !errors.Is(err, errdefs.ErrAborted) {
		t.Errorf("by an old revision: %v", err)
	}
}

func testBadDefinition(t testkit.T, k *kit) {
	ctx := k.as(t, identity.Identity{User: "u", Session: "bad"})
	if _, err := k.agents.PutAgent(ctx, &orchestratorv1.PutAgentRequest{Id: "broken", Spec: &orchestratorv1.AgentSpec{Files: map[string][]byte{"tools.json": []byte(`{"deny": [}`)}}}); err != nil {
		t.Fatalf("put: %v", err)
	}
	call := k.as(t, identity.Identity{Agent: "broken", User: "u", Session: "bad"})
	_, err := k.runs.CallAgent(call, &orchestratorv1.CallAgentRequest{Input: text("hello")})
	wantError(t, err, errdefs.ErrFailedPrecondition, "DEFINITION_INVALID")
	got, err := k.agents.GetAgent(ctx, &orchestratorv1.GetAgentRequest{Id: "broken"})
	if err != nil || len(got.GetAgent().GetProblems()) == 0 || !got.GetAgent().GetProblems()[0].GetFatal() {
		t.Errorf("get: %v, %v", got, err)
	}
}

func testListTools(t testkit.T, k *kit) {
	ctx := k.as(t, identity.Identity{User: "u", Session: "tools"})
	if _, err := k.agents.PutAgent(ctx, &orchestratorv1.PutAgentRequest{Id: "narrow", Spec: &orchestratorv1.AgentSpec{DenyTools: []string{"write_file", "no_such_tool"}}}); err != nil {
		t.Fatalf("put: %v", err)
	}
	list, err := k.agents.ListTools(ctx, &orchestratorv1.ListToolsRequest{Id: "narrow"})
	if err != nil {
		t.Fatalf("tools: %v", err)
	}
	for _, tool := range list.GetTools() {
		if (tool.GetName() == "write_file") == tool.GetEnabled() || tool.GetEnabled() == (tool.GetRemovedBy() != "") || tool.GetSchemaJson() == "" {
			t.Errorf("tool: %v", tool)
		}
	}
	same(t, "unknown entries", []string{"no_such_tool"}, list.GetUnknownEntries())
}

func testListModels(t testkit.T, k *kit) {
	list, err := k.agents.ListModels(k.ctx(t), &orchestratorv1.ListModelsRequest{})
	if err != nil || len(list.GetModels()) < 2 || !list.GetModels()[0].GetIsDefault() || list.GetModels()[0].GetName() != "scripted:script" {
		t.Errorf("models: %v, %v", list, err)
	}
}

func testSkills(t testkit.T, k *kit) {
	ctx := k.as(t, identity.Identity{User: "u", Session: "skills"})
	if _, err := k.agents.PutAgent(ctx, &orchestratorv1.PutAgentRequest{Id: "skilled", Spec: &orchestratorv1.AgentSpec{
		Files: map[string][]byte{"skills/whistle/SKILL.md": []byte("---\nname: whistle\ndescription: how to whistle\n---\nPurse your lips.\n")},
	}}); err != nil {
		t.Fatalf("put: %v", err)
	}
	ctx = k.as(t, identity.Identity{Agent: "skilled", User: "u", Session: "skills"})
	list, err := k.skills.ListSkills(ctx, &orchestratorv1.ListSkillsRequest{})
	if err != nil || len(list.GetSkills()) != 1 || list.GetSkills()[0].GetName() != "whistle" {
		t.Fatalf("skills: %v, %v", list, err)
	}
	got, err := k.skills.GetSkill(ctx, &orchestratorv1.GetSkillRequest{Name: "whistle"})
	if err != nil || !contains(got.GetSkill().GetText(), "Purse your lips.") {
		t.Errorf("skill: %v, %v", got, err)
	}
	_, err = k.skills.GetSkill(ctx, &orchestratorv1.GetSkillRequest{Name: "fly"})
	wantError(t, err, errdefs.ErrNotFound, "SKILL_NOT_FOUND")
}

var isolationCases = map[string]func(testkit.T, *kit){
	"another user sees nothing":       testOtherUser,
	"another user's ids lead nowhere": testGuess,
	"anonymous sessions are apart":    testAnonymous,
}

func testOtherUser(t testkit.T, k *kit) {
	ana, ben := k.as(t, identity.Identity{User: "ana-iso", Session: "same"}), k.as(t, identity.Identity{User: "ben-iso", Session: "same"})
	k.call(t, ana, text("hello, my badge is walrus-7"))
	k.call(t, ben, text("what did somebody say?"))
	list, err := k.threads.ListMessages(ben, &orchestratorv1.ListMessagesRequest{})
	if err != nil {
		t.Fatalf("messages: %v", err)
	}
	for _, m := range list.GetMessages() {
		if contains(m.String(), "walrus-7") {
			t.Errorf("ben reads %v", m)
		}
	}
	preview, err := k.runs.PreviewContext(ben, &orchestratorv1.PreviewContextRequest{Input: text("what did ana say?")})
	if err != nil || contains(preview.String(), "walrus-7") {
		t.Errorf("ben's request holds what ana said: %v", err)
	}
	threads, err := k.threads.ListThreads(ben, &orchestratorv1.ListThreadsRequest{})
	if err != nil || len(threads.GetThreads()) != 1 {
		t.Errorf("ben sees threads %v, %v", threads, err)
	}
}

func testGuess(t testkit.T, k *kit) {
	ana := k.ctx(t)
	id, _ := identity.FromContext(ana)
	r := k.call(t, ana, text("ask me"))
	id.User = "intruder"
	ben := k.as(t, id)
	_, err := k.runs.GetRun(ben, &orchestratorv1.GetRunRequest{RunId: r.GetId()})
	wantError(t, err, errdefs.ErrNotFound, "RUN_NOT_FOUND")
	_, err = k.attach(t, ben, r.GetId(), 0).Recv()
	wantError(t, err, errdefs.ErrNotFound, "RUN_NOT_FOUND")
	_, err = k.runs.CancelRun(ben, &orchestratorv1.CancelRunRequest{RunId: r.GetId()})
	wantError(t, err, errdefs.ErrNotFound, "RUN_NOT_FOUND")
	_, err = k.runs.SteerRun(ben, &orchestratorv1.SteerRunRequest{RunId: r.GetId(), Text: "x"})
	wantError(t, err, errdefs.ErrNotFound, "RUN_NOT_FOUND")
	_, err = k.runs.ResolveInteractions(ben, &orchestratorv1.ResolveInteractionsRequest{Answers: []*orchestratorv1.InteractionAnswer{
		{InteractionId: r.GetInteractions()[0].GetId(), Decision: "answer", Answers: []string{"tea"}},
	}})
	wantError(t, err, errdefs.ErrNotFound, "INTERACTION_NOT_FOUND")
}

func testAnonymous(t testkit.T, k *kit) {
	one, two := k.as(t, identity.Identity{Session: "anon-one"}), k.as(t, identity.Identity{Session: "anon-two"})
	k.call(t, one, text("keep it"))
	k.call(t, two, text("hello"))
	list, err := k.threads.ListMessages(two, &orchestratorv1.ListMessagesRequest{})
	if err != nil || len(list.GetMessages()) != 2 {
		t.Errorf("messages: %v, %v", list, err)
	}
}

var laterCases = map[string]func(testkit.T, *kit){
	"what is not in this version says so": testLater,
}

func testLater(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	for name, call := range map[string]func() error{
		"propose": func() error {
			_, err := k.skills.ProposeSkill(ctx, &orchestratorv1.ProposeSkillRequest{Name: "a", Text: "b"})
			return err
		},
		"curate": func() error { _, err := k.skills.CurateSkills(ctx, &orchestratorv1.CurateSkillsRequest{}); return err },
		"loop":   func() error { _, err := k.train.GetOnlineLoop(ctx, &orchestratorv1.GetOnlineLoopRequest{}); return err },
	} {
		t.Run(name, func(t testkit.T) { wantError(t, call(), errdefs.ErrUnimplemented, "CAPABILITY_MISSING") })
	}
}
