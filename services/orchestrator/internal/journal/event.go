package journal

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
)

// threadDomain is the domain of the errors of journals.
const threadDomain = "gantry.thread.v1"

// NewEvent makes the event of a payload. The id is unique within the thread, for it holds the epoch and a number of the writer.
func NewEvent(epoch int64, number int, run, turn string, step int, p *threadv1.EventPayload, now time.Time) *threadv1.Event {
	return &threadv1.Event{
		Schema: Schema, Id: fmt.Sprintf("%d.%d", epoch, number), Type: TypeOf(p), RunId: run, TurnId: turn, Step: int32(step), Required: required(p), Payload: p,
		Time: timestamppb.New(now),
	}
}

func duration(d time.Duration) *durationpb.Duration { return durationpb.New(d) }
