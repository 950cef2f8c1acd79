package definition

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
)

// Server is an MCP server as a definition declares it. Variables in its texts are not resolved. It has a Command or a URL, never both.
type Server struct {
	Name string

	Command string
	Args    []string
	Env     map[string]string

	URL            string
	Query, Headers map[string]string

	// Timeout bounds a call, StartTimeout connecting and listing. 0: the operator's.
	Timeout, StartTimeout time.Duration
	// Enable and Disable name tools as the server does. An empty Enable is every tool; Disable wins.
	Enable, Disable []string
	// Trust believes what the server says of its tools: those that it calls read-only need no approval and may be called again.
	Trust bool
}

const (
	// maxServers bounds the servers of one agent: each is a connection.
	maxServers = 32
	// maxServerTime bounds the times that a declaration may ask for.
	maxServerTime = 10 * time.Minute
)

// serverName keeps names apart in mcp__SERVER__TOOL: two underlines in a row, or one at the end, would let two servers have the same tool name.
var serverName = regexp.MustCompile(`^[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*$`)

var serverKeys = []string{
	"transport", "type", "command", "args", "env", "url", "headers", "queryParams", "timeout", "initializationTimeout", "enableTools", "disableTools", "trust", "disabled",
}

// ParseServers reads declarations of MCP servers, ordered by name. One with anything wrong is left out, and problems says why: what was not understood might
// have been a filter.
func ParseServers(in *structpb.Struct) (servers []Server, problems []string) {
	for _, name := range slices.Sorted(maps.Keys(in.GetFields())) {
		s, off, problem := parseServer(name, in.GetFields()[name])
		switch {
		case problem == "" && len(servers) >= maxServers:
			problem = fmt.Sprintf("an agent may have at most %d servers", maxServers)
			fallthrough
		case problem != "":
			problems = append(problems, fmt.Sprintf("the MCP server %q is not used: %s", name, problem))
		case !off:
			servers = append(servers, s)
		}
	}
	return servers, problems
}

func parseServer(name string, v *structpb.Value) (s Server, off bool, problem string) {
	if v.GetStructValue() == nil {
		return s, false, "it is not an object"
	}
	if len(name) > 32 || !serverName.MatchString(name) {
		return s, false, "a name has 1 to 32 letters, digits, - and single _ between them"
	}
	var d Definition
	f := front{d: &d, fields: v.GetStructValue().GetFields()}
	for _, key := range slices.Sorted(maps.Keys(f.fields)) {
		if !slices.Contains(serverKeys, key) {
			return s, false, fmt.Sprintf("no key is called %q", key)
		}
	}
	s = Server{
		Name: name, Command: f.text("command"), Args: f.list("args"), Env: f.texts("env"), URL: f.text("url"), Query: f.texts("queryParams"), Headers: f.texts("headers"),
		Timeout: f.time("timeout"), StartTimeout: f.time("initializationTimeout"), Enable: f.list("enableTools"), Disable: f.list("disableTools"), Trust: f.flag("trust"),
	}
	off = f.flag("disabled")
	if args := f.fields["args"]; args != nil && args.GetListValue() == nil {
		f.wrong("args", "a list of texts")
	}
	if len(d.Problems) > 0 {
		return s, off, d.Problems[0].GetProblem()
	}
	return s, off, s.check(strings.ToLower(f.text("transport", "type")))
}

// check says what does not fit together.
func (s Server) check(transport string) string {
	stdio := s.Command != ""
	switch {
	case stdio == (s.URL != ""):
		return "it needs either a command or a url"
	case transport == "sse":
		return "the transport sse is not supported; most servers have streamableHttp at another path"
	case stdio && transport != "" && transport != "stdio":
		return fmt.Sprintf("a command is served over stdio, not over %q", transport)
	case !stdio && !slices.Contains([]string{"", "http", "streamablehttp", "streamable-http", "streamable_http"}, transport):
		return fmt.Sprintf("no transport is called %q; there are stdio and streamableHttp", transport)
	case stdio && len(s.Headers)+len(s.Query) > 0, !stdio && len(s.Args)+len(s.Env) > 0:
		return "args and env belong to a command, headers and queryParams to a url"
	}
	if !stdio && !strings.Contains(s.URL, "${") {
		if u, err := url.Parse(s.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return "its url is none of http or https"
		}
	}
	return ""
}

// texts reads an object of texts.
func (f front) texts(name string) map[string]string {
	_, v := f.get([]string{name})
	if v == nil {
		return nil
	}
	out := map[string]string{}
	for key, item := range v.GetStructValue().GetFields() {
		if _, ok := item.GetKind().(*structpb.Value_StringValue); !ok {
			f.wrong(name+"."+key, "a text")
		}
		out[key] = item.GetStringValue()
	}
	if v.GetStructValue() == nil {
		f.wrong(name, "an object of texts")
	}
	return out
}

// time reads a length of time: a number of seconds, "30s", or "PT30S".
func (f front) time(name string) time.Duration {
	_, v := f.get([]string{name})
	if v == nil {
		return 0
	}
	out, err := time.ParseDuration(strings.ToLower(strings.TrimPrefix(v.GetStringValue(), "PT")))
	if _, number := v.GetKind().(*structpb.Value_NumberValue); number {
		out, err = time.Duration(v.GetNumberValue()*float64(time.Second)), nil
	}
	if err != nil || out <= 0 || out > maxServerTime {
		f.wrong(name, fmt.Sprintf("a time of at most %s, such as 30 or \"30s\"", maxServerTime))
		return 0
	}
	return out
}
