package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gantry-agents/gantry/services/orchestrator/internal/definition"
)

const (
	// maxBody bounds one answer, or one stream of events.
	maxBody = 16 << 20
	// maxRedirects bounds redirects within one host.
	maxRedirects = 3
	// goodbye bounds the request that ends a session.
	goodbye = 2 * time.Second
)

// client is an HTTP client of one connection: nothing of it is shared, connections to the server included.
type client struct {
	transport *http.Transport
	headers   map[string]string
}

func (c Config) httpClient(s definition.Server) (*http.Client, *client) {
	dialer := &net.Dialer{Timeout: c.Start, Control: func(_, address string, _ syscall.RawConn) error { return c.reachable(address) }}
	// No proxy: it would connect in our place, to addresses that nobody has looked at.
	t := &client{headers: s.Headers, transport: &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: c.Start, MaxConnsPerHost: 32, ForceAttemptHTTP2: true}}
	return &http.Client{Transport: t, CheckRedirect: sameHost}, t
}

// endpoint is the server's address with the declared parameters, which win over those in the address.
func endpoint(s definition.Server) (string, error) {
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", errors.New("its url is none of http or https")
	}
	q := u.Query()
	for name, value := range s.Query {
		q.Set(name, value)
	}
	u.RawQuery, u.Fragment = q.Encode(), ""
	return u.String(), nil
}

// inner has the address range of providers' inner networks, which the standard library does not count as private, and those that lead to IPv4 addresses.
var inner = []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("0.0.0.0/8")}

// reachable judges the address that a name was resolved to, so that no name can hide where it leads.
func (c Config) reachable(address string) error {
	if c.Private {
		return nil
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := at.Addr().Unmap()
	public := ip.IsGlobalUnicast() && !ip.IsPrivate()
	for _, p := range inner {
		public = public && !p.Contains(ip)
	}
	if !public {
		return fmt.Errorf("the address %s is not public, and the operator has not allowed such servers", ip)
	}
	return nil
}

// sameHost keeps what was meant for one host, headers with secrets included, from another.
func sameHost(req *http.Request, via []*http.Request) error {
	if first := via[0].URL; req.URL.Host != first.Host || req.URL.Scheme != first.Scheme {
		return fmt.Errorf("it redirects to another host, %s, which is not followed", req.URL.Host)
	}
	if len(via) > maxRedirects {
		return errors.New("it redirects too often")
	}
	return nil
}

func (c *client) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := req.Context(), context.CancelFunc(func() {})
	if req.Method == http.MethodDelete {
		ctx, cancel = context.WithTimeout(ctx, goodbye)
	}
	at := attemptOf(ctx)
	if req.Method != http.MethodPost {
		at = nil // it asks for the rest of an answer, so it says nothing of the call
	}
	ctx = at.begin(ctx)
	req = req.Clone(ctx)
	for name, value := range c.headers {
		if req.Header.Get(name) == "" { // those of the protocol stay
			req.Header.Set(name, value)
		}
	}
	resp, err := c.transport.RoundTrip(req)
	at.told(resp, err)
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = &body{http.MaxBytesReader(nil, resp.Body, maxBody), cancel}
	return resp, nil
}

// body is bounded, and ends what its request started.
type body struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *body) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// attempt is what became of the request of one call; of several, as after a redirect, the last. Nil notes nothing.
type attempt struct {
	written, refused, missing atomic.Bool
}

type attemptKey struct{}

func attemptOf(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

func (a *attempt) begin(ctx context.Context) context.Context {
	if a == nil {
		return ctx
	}
	a.written.Store(false)
	a.refused.Store(false)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { a.written.Store(true) }})
}

// told notes whether the server can't have acted: it got nothing, or it refused. Of 408, of 5xx and of other redirects than 307 and 308 that is not known.
func (a *attempt) told(resp *http.Response, err error) {
	if a == nil {
		return
	}
	if err != nil {
		a.refused.Store(!a.written.Load())
		return
	}
	code := resp.StatusCode
	a.refused.Store(code >= 400 && code < 500 && code != http.StatusRequestTimeout || code == http.StatusTemporaryRedirect || code == http.StatusPermanentRedirect)
	a.missing.Store(code == http.StatusNotFound)
}
