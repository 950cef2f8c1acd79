package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

// Domain is the domain of the errors of this service.
const Domain = "gantry.orchestrator.v1"

const threadDomain = "gantry.thread.v1"

// reasonBusy is the reason of a run that was refused because the thread has one.
const reasonBusy = "thread_busy"

// runID is the id of the run that a request starts: equal requests give equal runs.
func runID(key identity.Thread, request string) string {
	sum := sha256.Sum256([]byte(key.Key() + "\x00" + request))
	return "r" + hex.EncodeToString(sum[:10])
}

func notice(severity, reason, text string) *threadv1.EventPayload {
	return &threadv1.EventPayload{Kind: &threadv1.EventPayload_NoticeShown{NoticeShown: &threadv1.NoticeShown{Severity: severity, Reason: reason, Text: text}}}
}

func steer(kind, messageID, text string) *threadv1.EventPayload {
	origin := loop.OriginSteer
	if kind == loop.SteerInject {
		origin = loop.OriginInject
	}
	return &threadv1.EventPayload{Kind: &threadv1.EventPayload_SteerApplied{SteerApplied: &threadv1.SteerApplied{
		Kind: kind, MessageId: messageID, Message: loop.Text(messageID, threadv1.Role_ROLE_USER, origin, text),
	}}}
}

func resolved(p *threadv1.InteractionResolved) *threadv1.EventPayload {
	return &threadv1.EventPayload{Kind: &threadv1.EventPayload_InteractionResolved{InteractionResolved: p}}
}

func ended(p *threadv1.ToolResult) *threadv1.EventPayload {
	return &threadv1.EventPayload{Kind: &threadv1.EventPayload_ToolEnded{ToolEnded: &threadv1.ToolEnded{Result: p}}}
}

// modelStopped is the end of a request that was stopped: the text so far stays, calls do not, for a call that was cut off must not be run.
func modelStopped(r *loop.Run, partial *threadv1.Message) *threadv1.EventPayload {
	m := &threadv1.Message{Id: r.Model.MessageID, Role: threadv1.Role_ROLE_ASSISTANT}
	for _, b := range partial.GetBlocks() {
		if b.GetText() != "" {
			m.Blocks = append(m.Blocks, b)
		}
	}
	return &threadv1.EventPayload{Kind: &threadv1.EventPayload_ModelEnded{ModelEnded: &threadv1.ModelEnded{
		Message: m, Attempt: r.Model.Attempt, FinishReason: loop.FinishInterrupted, Usage: &threadv1.Usage{Requests: 1},
	}}}
}

func notFound(err error) bool { return errors.Is(err, errdefs.ErrNotFound) }

// transient says that the same call may work soon.
func transient(err error) bool {
	return errors.Is(err, errdefs.ErrUnavailable) || errors.Is(err, errdefs.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

// reasonOf is the reason of a run that failed with err, in the form of run/ended.
func reasonOf(err error, fallback string) string {
	if r := errdefs.ReasonOf(err); r != "" {
		return strings.ToLower(r)
	}
	return fallback
}

// messageOf is what a person may read of err.
func messageOf(err error) string {
	var e *errdefs.Error
	if errors.As(err, &e) {
		return e.Public()
	}
	return errdefs.ClassOf(err).Error()
}
