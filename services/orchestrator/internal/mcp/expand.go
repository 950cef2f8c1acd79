package mcp

import (
	"crypto/sha256"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/gantry-agents/gantry/services/orchestrator/internal/definition"
)

// key names a connection. Two calls share one only if all of it is equal.
type key struct {
	tenant, agent, server string
	// digest is over the declaration with its variables resolved.
	digest [32]byte
	// user and session are set where the declaration says something of them.
	user, session string
}

// keyOf names the connection of a resolved declaration.
func keyOf(who Caller, s definition.Server, personal bool) key {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err) // texts and numbers
	}
	k := key{tenant: who.Tenant, agent: who.Agent, server: s.Name, digest: sha256.Sum256(raw)}
	if personal {
		k.user = who.User
		if who.User == "" { // everybody who gives no name is somebody else
			k.session = who.Session
		}
	}
	return k
}

var variable = regexp.MustCompile(`\$\{([^{}]*)\}`)

// expansion resolves the variables of one declaration.
type expansion struct {
	cfg     Config
	who     Caller
	private bool // a value of the caller was used
	missing []string
}

// expand resolves the variables of a declaration. personal says that the result belongs to the user; missing are the variables that are not there or not
// allowed: they are empty.
func (c Config) expand(who Caller, s definition.Server) (out definition.Server, personal bool, missing []string) {
	x := &expansion{cfg: c, who: who}
	out = s
	// What decides who is called or started is the operator's alone: the caller's values could lead elsewhere.
	out.Command, out.URL = x.text(s.Command, false), x.text(s.URL, false)
	out.Args = slices.Clone(s.Args)
	for i, arg := range out.Args {
		out.Args[i] = x.text(arg, false)
	}
	out.Env, out.Query, out.Headers = x.texts(s.Env), x.texts(s.Query), x.texts(s.Headers)
	slices.Sort(x.missing)
	return out, x.private, slices.Compact(x.missing)
}

func (x *expansion) texts(in map[string]string) map[string]string {
	if in == nil {
		return nil
	}
	out := make(map[string]string, len(in))
	for name, text := range in {
		out[name] = x.text(text, true)
	}
	return out
}

func (x *expansion) text(text string, callers bool) string {
	return variable.ReplaceAllStringFunc(text, func(found string) string {
		name := found[2 : len(found)-1]
		value, ok := x.value(name, callers)
		if !ok {
			x.missing = append(x.missing, name)
		}
		return value
	})
}

func (x *expansion) value(name string, callers bool) (value string, ok bool) {
	if slices.Contains(x.cfg.Variables, name) {
		return x.cfg.Getenv(name)
	}
	attribute, isAttribute := strings.CutPrefix(name, "attribute.")
	switch {
	case !callers:
		return "", false
	case isAttribute:
		x.private = true // although it may be missing: the next call can have it
		value, ok = x.who.Attributes[attribute]
		return value, ok
	case name == "gantry.user":
		x.private = true
		return x.who.User, true
	case name == "gantry.tenant":
		return x.who.Tenant, true
	case name == "gantry.agent":
		return x.who.Agent, true
	}
	return "", false
}
