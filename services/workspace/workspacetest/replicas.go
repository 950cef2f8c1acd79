package workspacetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
)

// RunReplicas runs the cases about replicas of a service over the same buckets, at least two: what one has acknowledged, each of the others knows in its very next call.
func RunReplicas(t testkit.T, connect func(t testkit.T) []grpc.ClientConnInterface) {
	for _, c := range []struct {
		name string
		test func(replicas)
	}{
		{"writes", replicaWrites},
		{"layers", replicaLayers},
		{"templates", replicaTemplates},
		{"watch", replicaWatch},
		{"together", replicasTogether},
		{"effects and forgetting", replicaEffects},
	} {
		t.Run(c.name, func(t testkit.T) {
			agent := newAgent()
			var all replicas
			for _, conn := range connect(t) {
				s := &suite{T: t, agent: agent}
				s.connect(conn)
				all = append(all, s)
			}
			if len(all) < 2 {
				t.Fatalf("%d replicas", len(all))
			}
			c.test(all)
		})
	}
}

// replicas are suites of one agent, each on a replica.
type replicas []*suite

// next is the replica after one, round and round.
func (all replicas) next(i int) *suite { return all[(i+1)%len(all)] }

func (all replicas) show(user string, pairs ...string) {
	for _, s := range all {
		s.Helper()
		s.shows(user, pairs...)
	}
}

func (all replicas) hold(user, path, content string) {
	for _, s := range all {
		s.Helper()
		s.holds(user, path, content)
		out, err := s.files.Stat(s.as(user), &filesystemv1.StatRequest{Path: path})
		s.ok(err)
		if got := out.GetInfo().GetSizeBytes(); got != int64(len(content)) {
			s.Errorf("%s has %d bytes, want %d", path, got, len(content))
		}
	}
}

func replicaWrites(all replicas) {
	for round := range 3 {
		for i, s := range all {
			path := fmt.Sprintf("d/%d", i)
			content := fmt.Sprintf("needle %d of %d", round, i)
			s.write("ana", path, content)
			all.hold("ana", path, content)
			_, err := all.next(i).files.Edit(s.as("ana"), &filesystemv1.EditRequest{Path: path, Replacements: []*filesystemv1.Replacement{{OldText: "needle", NewText: "needle edited"}}})
			s.ok(err)
			content = strings.Replace(content, "needle", "needle edited", 1)
			all.hold("ana", path, content)
			_, err = s.files.Append(s.as("ana"), &filesystemv1.AppendRequest{Path: path, Content: []byte("+")})
			s.ok(err)
			all.hold("ana", path, content+"+")
		}
	}
	var pairs []string
	for i := range all {
		pairs = append(pairs, fmt.Sprintf("d/%d", i), "bucket")
	}
	all.show("ana", pairs...)
	_, err := all[0].files.Move(all[0].as("ana"), &filesystemv1.MoveRequest{FromPath: "d", ToPath: "e"})
	all[0].ok(err)
	for i := 0; i < len(pairs); i += 2 {
		pairs[i] = strings.Replace(pairs[i], "d/", "e/", 1)
	}
	all.show("ana", pairs...)
	all[1].delete("ana", "e")
	all.show("ana")
}

func replicaLayers(all replicas) {
	all[0].lay(layered())
	all.show("ben", benSees...)
	rest := []string{"AGENTS.md", "user*", "knowledge/a.md", "template", "knowledge/b.md", "user*", "knowledge/bin", "template", "knowledge/c.md", "user", "knowledge/empty", "template"}
	all[1].delete("ana", "skills")
	all.show("ana", rest...)
	all[0].write("ana", "skills/s/own.md", "needle")
	all.show("ana", append([]string{"skills/s/own.md", "bucket"}, rest...)...)
	all[len(all)-1].delete("ana", "knowledge/b.md")
	for i := range rest {
		if rest[i] == "knowledge/b.md" {
			rest = append(rest[:i:i], rest[i+2:]...)
			break
		}
	}
	all.show("ana", append([]string{"skills/s/own.md", "bucket"}, rest...)...)
	all.show("ben", benSees...)
}

func replicaTemplates(all replicas) {
	seen := map[string]bool{}
	for round := range 2 {
		for i, s := range all {
			rules := fmt.Sprintf("rules %d of %d", round, i)
			s.lay(templateFiles("AGENTS.md", rules, "knowledge/KNOWLEDGE.md", "k"))
			print := ""
			for n, r := range all {
				d := r.definition("ana")
				if d.GetRules().GetText() != rules || n > 0 && d.GetFingerprint() != print {
					r.Errorf("replica %d has the rules %q and the fingerprint %s, want %q and %s", n, d.GetRules().GetText(), d.GetFingerprint(), rules, print)
				}
				print = d.GetFingerprint()
			}
			if seen[print] {
				s.Errorf("the fingerprint %s comes twice", print)
			}
			seen[print] = true
			one := all.next(i)
			_, err := one.files.Write(one.as("op"), &filesystemv1.WriteRequest{Path: "knowledge/KNOWLEDGE.md", Content: []byte(rules), Layer: filesystemv1.Layer_LAYER_TEMPLATE})
			one.ok(err)
			all.hold("ben", "knowledge/KNOWLEDGE.md", rules)
		}
	}
	_, err := all[0].workspaces.DeleteAgentTemplate(all[0].as("op"), &workspacev1.DeleteAgentTemplateRequest{Agent: all[0].agent})
	all[0].ok(err)
	for n, s := range all {
		if d := s.definition("ana"); d.GetHasTemplate() || d.GetRules().GetText() != "" {
			s.Errorf("replica %d has the template that was deleted: %v", n, d.GetRules())
		}
		s.lacks("ana", "AGENTS.md")
	}
}

// A watcher at one replica sees what happens at the others, in order, and a cursor of one holds at each.
func replicaWatch(all replicas) {
	last := all[len(all)-1]
	ctx, cancel := context.WithCancel(last.as("ana"))
	defer cancel()
	stream, err := last.files.Watch(ctx, &filesystemv1.WatchRequest{})
	last.ok(err)
	if message, err := stream.Recv(); err != nil || message.GetStart() == nil {
		last.Fatalf("the first message: %v, %v", message, err)
	}
	var want []string
	cursor := ""
	for i, s := range all {
		for _, name := range []string{"a", "d/b"} {
			path := fmt.Sprintf("%s-%d", name, i)
			out, err := s.files.Write(s.as("ana"), &filesystemv1.WriteRequest{Path: path})
			s.ok(err)
			want = append(want, path)
			if len(want) == 2 {
				cursor = out.GetCursor()
			}
		}
	}
	follow := func(stream grpc.ServerStreamingClient[filesystemv1.WatchResponse], n int) (got []string) {
		for len(got) < n {
			message, err := stream.Recv()
			if err != nil {
				last.Fatalf("after %q: %v", got, err)
			}
			if c := message.GetChange(); c != nil {
				got = append(got, c.GetPath())
			}
		}
		return got
	}
	if got := follow(stream, len(want)); fmt.Sprint(got) != fmt.Sprint(want) {
		last.Errorf("watched %q, want %q", got, want)
	}
	for _, s := range all {
		ctx, cancel := context.WithCancel(s.as("ana"))
		stream, err := s.files.Watch(ctx, &filesystemv1.WatchRequest{Cursor: cursor})
		s.ok(err)
		if got := follow(stream, len(want)-2); fmt.Sprint(got) != fmt.Sprint(want[2:]) {
			s.Errorf("after the cursor of another replica: %q, want %q", got, want[2:])
		}
		cancel()
	}
}

// Writers at all replicas at once lose nothing; of those that create one file, one wins.
func replicasTogether(all replicas) {
	const rounds = 8
	all[0].lay(templateFiles("log", "", "knowledge/log.md", "begin\n"))
	var won [rounds]atomic.Int32
	var group sync.WaitGroup
	for n, s := range all {
		ctx, cancel := context.WithTimeout(s.Context(), 2*time.Minute)
		defer cancel()
		ctx = identity.NewContext(ctx, identity.Identity{Agent: s.agent, User: "ana"})
		group.Go(func() {
			for i := range rounds {
				_, err := s.files.Append(ctx, &filesystemv1.AppendRequest{Path: "knowledge/log.md", Content: fmt.Appendf(nil, "%d-%d.\n", n, i)})
				if err != nil {
					s.Errorf("append: %v", err)
				}
				_, err = s.files.Write(ctx, &filesystemv1.WriteRequest{Path: fmt.Sprint("only/", i), Content: fmt.Append(nil, n), Mode: filesystemv1.WriteMode_WRITE_MODE_CREATE})
				switch {
				case err == nil:
					won[i].Add(1)
				case errdefs.ReasonOf(err) != "PATH_EXISTS":
					s.Errorf("create: %v", err)
				}
			}
		})
	}
	group.Wait()
	for i := range won {
		if got := won[i].Load(); got != 1 {
			all[0].Errorf("%d replicas created only/%d", got, i)
		}
	}
	for _, s := range all {
		got, err := s.files.Read(s.as("ana"), &filesystemv1.ReadRequest{Path: "knowledge/log.md"})
		s.ok(err)
		if text := got.GetText(); !strings.HasPrefix(text, "begin\n") || strings.Count(text, "\n") != 1+rounds*len(all) {
			s.Errorf("the log holds %q", text)
		}
		for n := range all {
			for i := range rounds {
				if line := fmt.Sprintf("%d-%d.\n", n, i); strings.Count(got.GetText(), line) != 1 {
					s.Errorf("%q is there %d times", line, strings.Count(got.GetText(), line))
				}
			}
		}
	}
}

// An effect happens once, whichever replica is asked; who forgets a bucket forgets it for all.
func replicaEffects(all replicas) {
	id := effect.Random(time.Now())
	var first *filesystemv1.AppendResponse
	for _, s := range all {
		ctx := identity.NewContext(s.as("ana"), identity.Identity{Agent: s.agent, User: "ana", Effect: id})
		out, err := s.files.Append(ctx, &filesystemv1.AppendRequest{Path: "f", Content: []byte("once")})
		s.ok(err)
		if first == nil {
			first = out
		}
		if out.GetCursor() != first.GetCursor() || out.GetInfo().GetRevision() != first.GetInfo().GetRevision() {
			s.Errorf("another replica answers %v, want %v", out, first)
		}
	}
	all.hold("ana", "f", "once")
	_, err := all[1].workspaces.ForgetBucket(all[1].as("ana"), &workspacev1.ForgetBucketRequest{Confirm: true})
	all[1].ok(err)
	all.show("ana")
	for _, s := range all {
		stream, err := s.files.Watch(s.as("ana"), &filesystemv1.WatchRequest{Cursor: first.GetCursor()})
		if err == nil {
			_, err = stream.Recv()
			if err == nil { // the start
				_, err = stream.Recv()
			}
		}
		s.fails(err, errdefs.ErrOutOfRange, "CURSOR_EXPIRED")
		s.write("ana", "g", "new")
	}
	all.show("ana", "g", "bucket")
}
