// Command cmd serves a ledger over MCP: on its standard input and output, or with -listen over streamable HTTP.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gantry-agents/gantry/services/orchestrator/orchestratortest/ledger"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "ledger:", err)
		os.Exit(1)
	}
}

func run() error {
	file := flag.String("file", "", "file to book in")
	listen := flag.String("listen", "", "address to serve streamable HTTP at; the address in use is printed. Empty: standard input and output")
	flag.Parse()
	if *file == "" {
		return fmt.Errorf("-file is required")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	l := ledger.Open(*file)
	if *listen == "" {
		return l.Server().Run(ctx, &mcp.StdioTransport{})
	}
	at, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", at.Addr())
	server := &http.Server{Handler: l.Handler(), ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(at); err != http.ErrServerClosed {
		return err
	}
	return nil
}
