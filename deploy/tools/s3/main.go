// Command s3 serves the S3 protocol from memory, for tests. It makes buckets as they are named, checks no signature, and forgets everything at its end.
package main

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

func main() {
	address := flag.String("address", "127.0.0.1:9000", "where to listen: a loopback address")
	unconditional := flag.Bool("unconditional", false, "ignore If-None-Match on writes, as old S3 servers do")
	flag.Parse()
	if err := serve(*address, *unconditional); err != nil {
		fmt.Fprintln(os.Stderr, "s3:", err)
		os.Exit(1)
	}
}

func serve(address string, unconditional bool) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	handler := gofakes3.New(s3mem.New(), gofakes3.WithAutoBucket(true), gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if unconditional && r.Method == http.MethodPut {
			r.Header.Del("If-None-Match")
		}
		handler.ServeHTTP(w, r)
	})}
	return server.Serve(listener)
}
