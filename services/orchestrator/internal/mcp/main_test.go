package mcp

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/orchestrator/orchestratortest/ledger"
)

// TestMain is a server of the kind that MCP_TEST_SERVER names when a test starts it as one.
func TestMain(m *testing.M) {
	if kind := os.Getenv("MCP_TEST_SERVER"); kind != "" {
		serve(kind)
		return
	}
	testkit.LeakMain(m)
}

func serve(kind string) {
	l := ledger.Open(os.Getenv("MCP_TEST_FILE"))
	switch kind {
	case "ledger":
	case "mortal": // books, and dies before it answers
		l.OnAppend(func(context.Context, ledger.Line) { os.Exit(3) })
	case "slow": // books, and does not answer
		l.OnAppend(func(ctx context.Context, _ ledger.Line) { <-ctx.Done() })
	case "mute":
		time.Sleep(time.Hour)
	case "gone":
		fmt.Fprintln(os.Stderr, "no licence")
		os.Exit(1)
	case "babbler":
		fmt.Println("Welcome! This is no JSON.")
		time.Sleep(time.Hour)
	case "garbler": // answers properly until it is called
		lines := bufio.NewScanner(os.Stdin)
		for _, answer := range []string{
			`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}`, "",
			`{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"append","inputSchema":{"type":"object"}}]}}`, `{"jsonrpc":"2.0","id":3,"result":{"content":[{`,
		} {
			lines.Scan()
			fmt.Println(answer)
		}
		time.Sleep(time.Hour)
	case "stubborn": // does not end when it should, and has a child that does not either
		signal.Ignore(syscall.SIGTERM)
		child := exec.Command("sleep", "3600")
		if err := child.Start(); err != nil {
			panic(err)
		}
		pids := fmt.Sprintf("%d %d", os.Getpid(), child.Process.Pid)
		if err := os.WriteFile(os.Getenv("MCP_TEST_FILE"), []byte(pids), 0o600); err != nil {
			panic(err)
		}
		_ = l.Server().Run(context.Background(), &mcp.StdioTransport{})
		time.Sleep(time.Hour)
	case "env":
		_ = os.WriteFile(os.Getenv("MCP_TEST_FILE"), []byte(fmt.Sprint(os.Environ())), 0o600)
	}
	_ = l.Server().Run(context.Background(), &mcp.StdioTransport{})
}
