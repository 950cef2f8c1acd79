package server

import (
	"fmt"
	"net"
	"strings"
	"time"
)

// Config holds the settings of a server. A program sets its own default address by kong.Vars{"address": …}.
type Config struct {
	Address           string        `help:"Address to serve gRPC on: host:port, unix:/path, or memory:NAME within one process." default:"${address=127.0.0.1:7401}"`
	MaxMessageBytes   int           `name:"max-message-bytes" help:"Largest message, in and out." default:"16777216"`
	MaxStreams        uint32        `name:"max-streams" help:"Most concurrent calls of one connection." default:"1000"`
	ShutdownTimeout   time.Duration `name:"shutdown-timeout" help:"How long calls under way may take to end when the server stops. Then they are cut." default:"10s"`
	Reflection        bool          `help:"Serve reflection, by which tools list methods." default:"true" negatable:""`
	KeepAlive         time.Duration `name:"keep-alive" help:"Idle time after which the server asks whether the caller is still there." default:"30s"`
	KeepAliveTimeout  time.Duration `name:"keep-alive-timeout" help:"Time to answer that question." default:"10s"`
	MinClientInterval time.Duration `name:"min-client-interval" help:"Callers that ask whether the server is there more often than this are cut." default:"5s"`
}

// DefaultConfig returns the defaults, which the tags state too.
func DefaultConfig() Config {
	return Config{
		Address: "127.0.0.1:7401", MaxMessageBytes: 16 << 20, MaxStreams: 1000, ShutdownTimeout: 10 * time.Second, Reflection: true,
		KeepAlive: 30 * time.Second, KeepAliveTimeout: 10 * time.Second, MinClientInterval: 5 * time.Second,
	}
}

// withDefaults fills what is zero, so that Config{Address: …} is enough in tests and in one process. Reflection stays
// as it is.
func (c Config) withDefaults() Config {
	d := DefaultConfig()
	if c.Address == "" {
		c.Address = d.Address
	}
	if c.MaxMessageBytes == 0 {
		c.MaxMessageBytes = d.MaxMessageBytes
	}
	if c.MaxStreams == 0 {
		c.MaxStreams = d.MaxStreams
	}
	for _, f := range []struct{ value, fallback *time.Duration }{
		{&c.ShutdownTimeout, &d.ShutdownTimeout}, {&c.KeepAlive, &d.KeepAlive},
		{&c.KeepAliveTimeout, &d.KeepAliveTimeout}, {&c.MinClientInterval, &d.MinClientInterval},
	} {
		if *f.value == 0 {
			*f.value = *f.fallback
		}
	}
	return c
}

// Validate checks the settings.
func (c Config) Validate() error {
	if _, err := parseAddress(c.Address); err != nil {
		return err
	}
	switch {
	case c.MaxMessageBytes < 1024:
		return fmt.Errorf("server: max-message-bytes is %d, at least 1024 are needed", c.MaxMessageBytes)
	case c.ShutdownTimeout < 0 || c.KeepAlive < 0 || c.KeepAliveTimeout < 0 || c.MinClientInterval < 0:
		return fmt.Errorf("server: a time is negative")
	}
	return nil
}

// kind is the kind of network of an address.
type kind string

const (
	tcp    kind = "tcp"
	unix   kind = "unix"
	memory kind = "memory"
)

// address is a parsed address.
type address struct {
	kind kind
	// target is host:port, a path, or a name.
	target string
}

// parseAddress reads "host:port", "unix:/path" or "memory:NAME".
func parseAddress(text string) (address, error) {
	for _, k := range []kind{unix, memory} {
		target, ok := strings.CutPrefix(text, string(k)+":")
		if !ok {
			continue
		}
		if target == "" {
			return address{}, fmt.Errorf("server: address %q names nothing after %q", text, string(k)+":")
		}
		return address{k, target}, nil
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil || port == "" {
		return address{}, fmt.Errorf("server: address %q is not host:port, unix:/path or memory:NAME", text)
	}
	return address{tcp, net.JoinHostPort(host, port)}, nil
}

// private says whether only processes of this machine can reach the address.
func (a address) private() bool {
	if a.kind != tcp {
		return true
	}
	host, _, _ := net.SplitHostPort(a.target)
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// Open says whether the address can be reached from other machines, which is refused where clients need no credential.
func Open(text string) (bool, error) {
	a, err := parseAddress(text)
	return err == nil && !a.private(), err
}
