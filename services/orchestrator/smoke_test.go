package orchestrator_test

import (
	"context"
	"testing"
	"time"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/orchestrator/orchestratortest"
)

func TestSmoke(t *testing.T) {
	c := orchestratortest.NewCluster(t, `
turns:
  - when: {tool: write_file}
    text: "It is written."
  - when: {user: "write"}
    calls: [{name: write_file, arguments: {path: notes.txt, content: ink}}]
`, access.Config{})
	r := c.Start(nil)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	ctx = identity.NewContext(ctx, identity.Identity{User: "ana", Session: "s1"})
	runs := orchestratorv1.NewRunServiceClient(r.Conn)
	stream, err := runs.StreamAgent(ctx, &orchestratorv1.StreamAgentRequest{Input: &orchestratorv1.RunInput{Text: "please write"}})
	if err != nil {
		t.Fatal(err)
	}
	for {
		msg, err := stream.Recv()
		if err != nil {
			t.Log(err)
			break
		}
		t.Log(msg)
	}
	t.Log(c.Threads.Commits(), "commits")
}
