package scripted

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gantry-agents/gantry/libs/model"
)

// Script is the file.
type Script struct {
	Models []Model `yaml:"models"` // default: one, "script", with tools
	Turns  []Turn  `yaml:"turns"`
}

// Model is a model that the script plays.
type Model struct {
	Name          string `yaml:"name"`
	ContextTokens int    `yaml:"context_tokens"` // an input of more than this many characters/4 overflows; 0 = no window
	NoTools       bool   `yaml:"no_tools"`
}

// Turn is one answer.
type Turn struct {
	When   When `yaml:"when"`
	Times  int  `yaml:"times"`
	Always bool `yaml:"always"`

	Delay    time.Duration `yaml:"delay"`    // before the first event
	Interval time.Duration `yaml:"interval"` // before every later event
	Thinking string        `yaml:"thinking"`
	Text     string        `yaml:"text"`
	Piece    int           `yaml:"piece"` // bytes of text in one event, default 16
	Calls    []Call        `yaml:"calls"`
	Tokens   []int         `yaml:"tokens"` // [input, output]; default: characters/4
	Finish   string        `yaml:"finish"` // default stop, or tool_calls when there are calls
	Error    *Failure      `yaml:"error"`  // ends the answer instead of the finish
	Hang     bool          `yaml:"hang"`   // nothing more comes until the context ends

	used int
}

// Call is a tool call of an answer. Arguments is any YAML value; RawArguments is text that is sent as it is, malformed or not.
type Call struct {
	ID           string `yaml:"id"`
	Name         string `yaml:"name"`
	Arguments    any    `yaml:"arguments"`
	RawArguments string `yaml:"raw_arguments"`
}

// When holds conditions on a request. Patterns are regular expressions that may match anywhere.
type When struct {
	Model  string `yaml:"model"`  // exact name
	System string `yaml:"system"` // pattern in the system text
	User   string `yaml:"user"`   // pattern in the last message of the user that is not synthetic
	Text   string `yaml:"text"`   // pattern in any text of the conversation, synthetic messages and results included
	Tool   string `yaml:"tool"`   // exact name of a tool whose result is in the last message
	Result string `yaml:"result"` // pattern in a result of the last message
	Offers string `yaml:"offers"` // exact name of a tool that the request offers
	Step   int    `yaml:"step"`   // number of answers of the model in the conversation, plus one
}

// Failure is an error of the provider.
type Failure struct {
	Kind       string        `yaml:"kind"` // see kinds
	Message    string        `yaml:"message"`
	RetryAfter time.Duration `yaml:"retry_after"`
}

// kinds are the names of the kinds of errors in a script.
var kinds = map[string]model.Kind{
	"internal": model.KindInternal, "bad_request": model.KindBadRequest, "unknown_model": model.KindUnknownModel,
	"unsupported": model.KindUnsupported, "auth": model.KindAuth, "rate_limited": model.KindRateLimited, "overloaded": model.KindOverloaded,
	"unavailable": model.KindUnavailable, "timeout": model.KindTimeout, "context_overflow": model.KindContextOverflow,
}

// Load reads a script from a file.
func Load(path string) (*Script, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Parse reads a script. A field that does not exist, a pattern that does not compile and a turn that says nothing are
// errors: a test must not pass because its script was misread.
func Parse(b []byte) (*Script, error) {
	var s Script
	dec := yaml.NewDecoder(bytes.NewReader(b))
	dec.KnownFields(true)
	if err := dec.Decode(&s); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	for i, t := range s.Turns {
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("turn %d: %w", i+1, err)
		}
	}
	return &s, nil
}

func (t Turn) check() error {
	for _, p := range []string{t.When.System, t.When.User, t.When.Text, t.When.Result} {
		if _, err := regexp.Compile(p); err != nil {
			return err
		}
	}
	if t.Text == "" && t.Thinking == "" && len(t.Calls) == 0 && t.Error == nil && !t.Hang {
		return errors.New("it says nothing: give text, calls, error or hang")
	}
	if t.Error != nil {
		if _, ok := kinds[t.Error.Kind]; !ok {
			return fmt.Errorf("error kind %q is not known", t.Error.Kind)
		}
	}
	for _, c := range t.Calls {
		if c.Name == "" {
			return errors.New("a call has no name")
		}
		if _, err := c.arguments(); err != nil {
			return fmt.Errorf("call %s: %w", c.Name, err)
		}
	}
	if len(t.Tokens) != 0 && len(t.Tokens) != 2 {
		return errors.New("tokens are [input, output]")
	}
	return nil
}

func (c Call) arguments() (string, error) {
	if c.RawArguments != "" {
		return c.RawArguments, nil
	}
	if c.Arguments == nil {
		return "{}", nil
	}
	b, err := json.Marshal(c.Arguments)
	return string(b), err
}

// holds says whether the conditions fit the request.
func (w When) holds(req model.Request) bool {
	steps := 1
	var user string
	var all strings.Builder
	for _, m := range req.Messages {
		switch {
		case m.Role == model.RoleAssistant:
			steps++
		case m.Role == model.RoleUser && (m.Origin == "" || m.Origin == model.OriginSteer):
			user = m.Text()
		}
		all.WriteString(m.Text() + "\n")
		for _, b := range m.Blocks {
			if b.ToolResult != nil {
				all.WriteString(b.ToolResult.Content + "\n")
			}
		}
	}
	offered := false
	for _, t := range req.Tools {
		offered = offered || t.Name == w.Offers
	}
	return (w.Model == "" || w.Model == req.Model) &&
		(w.Step == 0 || w.Step == steps) &&
		(w.Offers == "" || offered) &&
		matches(w.System, req.System) && matches(w.User, user) && matches(w.Text, all.String()) &&
		w.fitsResults(req.Messages)
}

func (w When) fitsResults(messages []model.Message) bool {
	if w.Tool == "" && w.Result == "" {
		return true
	}
	for i := len(messages) - 1; i >= 0; i-- {
		m := messages[i]
		if m.Role == model.RoleUser && m.Origin != "" && m.Origin != model.OriginSteer {
			continue // state and material that stand after the conversation
		}
		for _, b := range m.Blocks {
			if r := b.ToolResult; r != nil && (w.Tool == "" || w.Tool == r.Name) && matches(w.Result, r.Content) {
				return true
			}
		}
		return false
	}
	return false
}

func matches(pattern, text string) bool {
	return pattern == "" || regexp.MustCompile(pattern).MatchString(text)
}
