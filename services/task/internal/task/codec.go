package task

import (
	"encoding/json"
	"fmt"
)

// EncodeTask returns the record of a task for a store: everything but Seq, Input and Result. Fields that a later version adds are zero in records of an earlier one.
func EncodeTask(t *Task) ([]byte, error) { return json.Marshal(t) }

// DecodeTask reads a record.
func DecodeTask(record []byte) (Task, error) {
	var t Task
	if err := json.Unmarshal(record, &t); err != nil {
		return Task{}, fmt.Errorf("task: record: %w", err)
	}
	return t, nil
}

// EncodeInput returns an input for a store, nil for none.
func EncodeInput(in *Input) ([]byte, error) {
	if in == nil {
		return nil, nil
	}
	return json.Marshal(in)
}

// DecodeInput reads an input.
func DecodeInput(data []byte) (*Input, error) { return decodePart[Input](data) }

// EncodeResult returns a result for a store, nil for none.
func EncodeResult(r *Result) ([]byte, error) {
	if r == nil {
		return nil, nil
	}
	return json.Marshal(r)
}

// DecodeResult reads a result.
func DecodeResult(data []byte) (*Result, error) { return decodePart[Result](data) }

func decodePart[T any](data []byte) (*T, error) {
	if len(data) == 0 {
		return nil, nil
	}
	part := new(T)
	if err := json.Unmarshal(data, part); err != nil {
		return nil, fmt.Errorf("task: %T: %w", part, err)
	}
	return part, nil
}
