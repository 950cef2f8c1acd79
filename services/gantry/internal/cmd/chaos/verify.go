package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/gantry/internal/procs"
)

// findings are what is wrong with what a subject left, and how long its runs were without an owner while the journal was there.
type findings struct {
	lost, doubled []string
	takeOvers     []time.Duration
	events        []*threadv1.Event
}

func (f *findings) lose(format string, args ...any) {
	f.lost = append(f.lost, fmt.Sprintf(format, args...))
}
func (f *findings) double(format string, args ...any) {
	f.doubled = append(f.doubled, fmt.Sprintf(format, args...))
}

// verify looks at everything that the subject's runs must have left.
func (s *subject) verify(ctx context.Context) (findings, error) {
	ctx = s.as(ctx)
	var f findings
	for path, want := range s.scenario.files {
		if err := s.lines(ctx, &f, path, want); err != nil {
			return f, fmt.Errorf("read %s: %w", path, err)
		}
	}
	if s.scenario.fact != "" {
		if err := s.facts(ctx, &f); err != nil {
			return f, fmt.Errorf("read the facts: %w", err)
		}
	}
	if s.scenario.agent == agentPlain {
		got, err := insist(ctx, s.to(procs.Task), func(c grpc.ClientConnInterface) func(context.Context, *taskv1.ListTasksRequest, ...grpc.CallOption) (*taskv1.ListTasksResponse, error) {
			return taskv1.NewTaskServiceClient(c).ListTasks
		}, &taskv1.ListTasksRequest{Kind: "agent_run"})
		if err != nil {
			return f, fmt.Errorf("list the tasks: %w", err)
		}
		f.count("tasks", len(got.GetTasks()), s.scenario.tasks)
	}
	return f, s.journal(ctx, &f)
}

func (s *subject) to(service string) func() grpc.ClientConnInterface {
	return func() grpc.ClientConnInterface { return s.c.Conn(service) }
}

func (f *findings) count(what string, got, want int) {
	switch {
	case got < want:
		f.lose("%d %s, want %d", got, what, want)
	case got > want:
		f.double("%d %s, want %d", got, what, want)
	}
}

// read is the text of a file as the agent sees it; empty when there is none.
func (s *subject) read(ctx context.Context, path string) (string, error) {
	got, err := insist(ctx, s.c.replica, func(c grpc.ClientConnInterface) func(context.Context, *fsv1.ReadRequest, ...grpc.CallOption) (*fsv1.ReadResponse, error) {
		return fsv1.NewFilesystemServiceClient(c).Read
	}, &fsv1.ReadRequest{Path: path})
	if errors.Is(err, errdefs.ErrNotFound) {
		return "", nil
	}
	return got.GetText(), err
}

// lines looks at a file that things were added to.
func (s *subject) lines(ctx context.Context, f *findings, path string, want []string) error {
	text, err := s.read(ctx, path)
	if err != nil {
		return err
	}
	// A command whose supervisor was killed may not have come to the end; that was told.
	f.lines(path, text, want, path == s.scenario.unsure && s.unknown > 0)
	return nil
}

// lines compares the lines of a file, each of which something wrote once. They may come in another order where calls of one step ran beside each other.
func (f *findings) lines(path, text string, want []string, unsure bool) {
	counts := map[string]int{}
	for _, line := range strings.Fields(text) {
		counts[line]++
	}
	for _, line := range want {
		if n := counts[line]; n > 0 || !unsure {
			f.count(fmt.Sprintf("lines %q in %s (%q)", line, path, text), n, 1)
		}
		delete(counts, line)
	}
	for line := range counts {
		f.double("%s has %q, which nobody wrote to it", path, line)
	}
}

// facts counts the fact in the ledger.
func (s *subject) facts(ctx context.Context, f *findings) error {
	got, err := insist(ctx, s.to(procs.Workspace), func(c grpc.ClientConnInterface) func(context.Context, *fsv1.GlobRequest, ...grpc.CallOption) (*fsv1.GlobResponse, error) {
		return fsv1.NewFilesystemServiceClient(c).Glob
	}, &fsv1.GlobRequest{Pattern: "memory/*.md"})
	if err != nil {
		return err
	}
	n := 0
	for _, e := range got.GetEntries() {
		text, err := s.read(ctx, e.GetPath())
		if err != nil {
			return err
		}
		n += strings.Count(text, s.scenario.fact)
	}
	f.count("facts", n, 1)
	return nil
}

// journal counts starts, ends and results in the thread.
func (s *subject) journal(ctx context.Context, f *findings) error {
	events, err := s.scan(ctx)
	if err != nil {
		return fmt.Errorf("scan the journal: %w", err)
	}
	f.events = events
	starts, ends, results, steers := map[string]int{}, map[string]int{}, map[string]int{}, 0
	calls, booked := map[string]bool{}, map[string]string{} // effects of bookings, by call
	for _, ev := range events {
		p := ev.GetPayload()
		switch {
		case p.GetRunStarted().GetCause() == "steer":
			steers++ // it came behind the last request of the run, and is one of its own
		case p.GetRunStarted() != nil:
			starts[ev.GetRunId()]++
		case p.GetRunEnded() != nil && p.GetRunEnded().GetState() != threadv1.RunState_RUN_STATE_SUSPENDED:
			ends[ev.GetRunId()]++
		case p.GetToolRequested() != nil:
			calls[p.GetToolRequested().GetCall().GetId()] = true
		case p.GetToolDispatched().GetName() == "mcp__ledger__append":
			booked[p.GetToolDispatched().GetCallId()] = p.GetToolDispatched().GetEffect()
		case p.GetToolEnded() != nil:
			results[p.GetToolEnded().GetResult().GetCallId()]++
		case p.GetSteerApplied() != nil:
			steers++
		case p.GetRecoveryTakenOver() != nil:
			from, _, _ := strings.Cut(p.GetRecoveryTakenOver().GetFromOwner(), "/")
			if at, ok := s.c.killed(from, ev.GetTime().AsTime()); ok && s.c.withStore(at, ev.GetTime().AsTime()) {
				f.takeOvers = append(f.takeOvers, ev.GetTime().AsTime().Sub(at))
			}
		}
	}
	for _, id := range s.runs {
		f.count("starts of run "+id, starts[id], 1)
		f.count("ends of run "+id, ends[id], 1)
	}
	f.count("runs", len(starts), len(s.runs))
	for id := range calls {
		f.count("results of call "+id, results[id], 1)
	}
	if err := s.bookings(f, booked); err != nil {
		return err
	}
	if s.steered {
		f.count("texts of steering", steers, 1)
	}
	return nil
}

// bookings counts the lines of the ledger: one for each call, or none where the outcome was not known.
func (s *subject) bookings(f *findings, booked map[string]string) error {
	if len(booked) == 0 {
		return nil
	}
	lines, err := s.c.ledger.Lines()
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	for call, effect := range booked {
		n := 0
		for _, line := range lines {
			if line.Effect == effect {
				n++
			}
		}
		if n > 0 || s.unknown == 0 {
			f.count("bookings of call "+call, n, 1)
		}
	}
	return nil
}

// scan reads the whole journal of the thread.
func (s *subject) scan(ctx context.Context) ([]*threadv1.Event, error) {
	got, err := insist(ctx, s.to(procs.Workspace), func(c grpc.ClientConnInterface) func(context.Context, *threadv1.ScanRequest, ...grpc.CallOption) (*[]*threadv1.Event, error) {
		return func(ctx context.Context, q *threadv1.ScanRequest, opts ...grpc.CallOption) (*[]*threadv1.Event, error) {
			stream, err := threadv1.NewThreadServiceClient(c).Scan(ctx, q, opts...)
			if err != nil {
				return nil, err
			}
			var events []*threadv1.Event
			for {
				msg, err := stream.Recv()
				if errors.Is(err, io.EOF) {
					return &events, nil
				}
				if err != nil {
					return nil, err
				}
				events = append(events, msg.GetEvent())
			}
		}
	}, &threadv1.ScanRequest{})
	if err != nil {
		return nil, err
	}
	return *got, nil
}
