package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// Func makes a tool of a typed function. The schema comes from In: field names and omitempty from the json tag, the
// description from the jsonschema tag. Arguments are checked against it before fn is called. A returned error becomes a
// result that the model can read. A Spec or In that can't be used is a fault of the program and panics at start.
func Func[In any](spec Spec, fn func(ctx context.Context, call Call, in In) (Result, error)) Tool {
	s, err := schemaOf[In]()
	if err != nil {
		panic(fmt.Sprintf("tool %s: schema: %v", spec.Name, err))
	}
	spec.Schema = s.text
	return &function[In]{spec: spec, schema: s.resolved, fn: fn}
}

// schema is that of one type, in both forms. It never changes.
type schema struct {
	text     json.RawMessage
	resolved *jsonschema.Resolved
}

// schemas holds the schema of each type by its reflect.Type: tools are made for every run, and their types are few.
var schemas sync.Map

func schemaOf[In any]() (schema, error) {
	key := reflect.TypeFor[In]()
	if s, ok := schemas.Load(key); ok {
		return s.(schema), nil
	}
	made, err := jsonschema.For[In](nil)
	if err != nil {
		return schema{}, err
	}
	var s schema
	if s.resolved, err = made.Resolve(nil); err != nil {
		return schema{}, err
	}
	if s.text, err = json.Marshal(made); err != nil {
		return schema{}, err
	}
	schemas.Store(key, s)
	return s, nil
}

type function[In any] struct {
	spec   Spec
	schema *jsonschema.Resolved
	fn     func(context.Context, Call, In) (Result, error)
}

func (f *function[In]) Spec() Spec { return f.spec }

func (f *function[In]) Run(ctx context.Context, call Call) (result Result) {
	defer func() {
		if r := recover(); r != nil {
			result = Failed("TOOL_PANICKED", fmt.Sprintf("%s broke while it worked. Another call may work; the same one will not.", f.spec.Name)).With("panic", fmt.Sprint(r))
		}
	}()
	in, bad := decode[In](f.schema, call.Arguments)
	if bad != nil {
		return Failed("ARGUMENTS_INVALID", fmt.Sprintf("The arguments of %s are not right: %v. Call it again with arguments that fit its schema.", f.spec.Name, bad))
	}
	result, err := f.fn(ctx, call, in)
	if err != nil {
		result = FromError(err)
		result.Unanswered = unanswered(ctx, err)
	}
	return result
}

// unanswered says whether a service that the call went to gave no answer, while there is time for one.
func unanswered(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	return errors.Is(err, errdefs.ErrUnavailable) || errors.Is(err, errdefs.ErrDeadlineExceeded) || errors.Is(err, errdefs.ErrCanceled)
}

// decode checks and reads arguments. Explicit nulls stand for "not given", as models write them.
func decode[In any](schema *jsonschema.Resolved, arguments json.RawMessage) (in In, err error) {
	if len(bytes.TrimSpace(arguments)) == 0 {
		arguments = json.RawMessage("{}")
	}
	dec := json.NewDecoder(bytes.NewReader(arguments))
	var object map[string]any
	if err := dec.Decode(&object); err != nil {
		return in, fmt.Errorf("they are no JSON object (%w)", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return in, errors.New("something follows the JSON object")
	}
	for k, v := range object {
		if v == nil {
			delete(object, k)
		}
	}
	if err := schema.Validate(object); err != nil {
		return in, err
	}
	clean, err := json.Marshal(object)
	if err != nil {
		return in, err
	}
	return in, json.Unmarshal(clean, &in)
}

// FromError makes a result of an error. The reason of a typed error is kept; the text of an untyped one is not shown,
// since it may name things that the model must not see.
func FromError(err error) Result {
	var typed *errdefs.Error
	if errors.As(err, &typed) {
		r := Failed(typed.Reason, typed.Message)
		for k, v := range typed.Meta {
			r = r.With(k, v)
		}
		return r
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errdefs.ErrDeadlineExceeded) {
		return Failed("TIMED_OUT", "The call took too long and was given up. It may or may not have had an effect: look before you repeat it.")
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, errdefs.ErrCanceled) {
		return Failed("CANCELED", "The call was cancelled.")
	}
	return Failed("INTERNAL", "The call failed inside Gantry. It can be tried once more.")
}
