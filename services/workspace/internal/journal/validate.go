package journal

import (
	"strings"
	"unicode/utf8"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

// invalid is the error of a request that no state could make right.
func invalid(field, format string, args ...any) error {
	err := errdefs.New(errdefs.ErrInvalidArgument, Domain, "", field+" "+format, args...)
	err.Violations = []errdefs.Violation{{Field: field, Description: err.Message}}
	return err
}

// checkText checks a text that is stored: UTF-8 within the limit, and not empty if must.
func checkText(field, text string, limit int, must bool) error {
	switch {
	case must && text == "":
		return invalid(field, "is empty")
	case len(text) > limit:
		return invalid(field, "has %d bytes, at most %d are allowed", len(text), limit)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return invalid(field, "is not UTF-8 text without NUL")
	}
	return nil
}

// first returns the first error.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Validate checks id and address.
func (o Owner) Validate() error {
	return first(checkText("owner.id", o.ID, MaxIDBytes, true), checkText("owner.address", o.Address, MaxAddressBytes, false))
}

// Validate checks the limits of a message.
func (m Mail) Validate() error {
	if len(m.Payload) > MaxMailBytes {
		return TooLarge("the payload of the message", MaxMailBytes, int64(len(m.Payload)))
	}
	return first(checkText("mail.message_id", m.ID, MaxIDBytes, true), checkText("mail.kind", m.Kind, MaxTypeBytes, true))
}

// Room returns how many messages a mailbox holds before it refuses this one.
func (m Mail) Room() int {
	switch m.Kind {
	case "input", "steer", "inject":
		return MaxMail - ControlMail
	}
	return MaxMail
}

// Validate checks the limits of a batch and sets the hash of every payload.
func (b *Batch) Validate() error {
	if err := first(
		checkText("owner_id", b.Owner, MaxIDBytes, true), checkText("batch_id", b.ID, MaxIDBytes, true),
		checkText("title", b.Title, MaxTitleBytes, false), checkText("title", b.TitleHint, MaxTitleBytes, false),
		checkText("run_mark.run_id", b.Run.ID, MaxIDBytes, b.Run.State != RunNone), checkText("run_mark.task_id", b.Run.TaskID, MaxIDBytes, false),
	); err != nil {
		return err
	}
	switch {
	case b.Expected < -1:
		return invalid("expected_seq", "is below -1")
	case b.Run.State > RunEnded:
		return invalid("run_mark.state", "is unknown")
	case len(b.Events) > MaxBatchEvents:
		return TooLarge("the batch", MaxBatchEvents, int64(len(b.Events)))
	case len(b.Consume) > MaxBatchConsume:
		return TooLarge("the list of consumed messages", MaxBatchConsume, int64(len(b.Consume)))
	case len(b.Mail) > MaxBatchMail:
		return TooLarge("the list of new messages", MaxBatchMail, int64(len(b.Mail)))
	case b.TitleHint != "" && (b.TitleFrom < 0 || b.TitleFrom >= len(b.Events)):
		return invalid("title", "comes from no event of the batch")
	}
	if err := b.validateEvents(); err != nil {
		return err
	}
	for _, m := range b.Mail {
		if err := m.Validate(); err != nil {
			return err
		}
	}
	return distinct("consumed_message_ids", b.Consume)
}

func (b *Batch) validateEvents() error {
	ids, total := make([]string, len(b.Events)), 0
	for i := range b.Events {
		e := &b.Events[i]
		ids[i] = e.ID
		total += len(e.Payload)
		switch {
		case len(e.Payload) > MaxPayloadBytes:
			return TooLarge("the payload of the event", MaxPayloadBytes, int64(len(e.Payload)))
		case len(e.Blobs) > MaxEventBlobs:
			return TooLarge("the list of blobs of the event", MaxEventBlobs, int64(len(e.Blobs)))
		case e.Schema == 0:
			return invalid("events.schema", "is 0")
		case e.Step < 0:
			return invalid("events.step", "is negative")
		}
		if err := first(
			checkText("events.id", e.ID, MaxIDBytes, true), checkText("events.type", e.Type, MaxTypeBytes, true),
			checkText("events.run_id", e.RunID, MaxIDBytes, false), checkText("events.turn_id", e.TurnID, MaxIDBytes, false),
		); err != nil {
			return err
		}
		e.PayloadHash = HashOf(e.Payload)
	}
	if total > MaxBatchBytes {
		return TooLarge("the batch", MaxBatchBytes, int64(total))
	}
	return distinct("events.id", ids)
}

// distinct checks that no id is there twice.
func distinct(field string, ids []string) error {
	seen := make(map[string]bool, len(ids))
	for _, id := range ids {
		if seen[id] {
			return invalid(field, "holds %q twice", id)
		}
		seen[id] = true
	}
	return nil
}

// Validate checks the owner and the bounds.
func (r ClaimRequest) Validate() error {
	switch {
	case r.Max < 1 || r.Max > MaxClaims:
		return invalid("max_threads", "is not from 1 to %d", MaxClaims)
	case r.MaxWait < 0 || r.MaxWait > MaxClaimWait:
		return invalid("max_wait", "is not from 0 to %s", MaxClaimWait)
	}
	return r.Owner.Validate()
}

// ValidateRedact checks the request of Redact.
func ValidateRedact(seqs []int64, reason string) error {
	switch {
	case len(seqs) == 0:
		return invalid("seqs", "is empty")
	case len(seqs) > MaxRedact:
		return TooLarge("the list of events", MaxRedact, int64(len(seqs)))
	}
	return checkText("reason", reason, MaxReasonBytes, false)
}

// ValidatePage checks the size of a page.
func ValidatePage(size, limit int) error {
	if size < 1 || size > limit {
		return invalid("page_size", "is not from 1 to %d", limit)
	}
	return nil
}

// ValidateUser checks the ids of a user.
func ValidateUser(u User) error {
	return identity.Thread{Tenant: u.Tenant, Agent: u.Agent, User: u.User, Session: "any"}.Validate()
}
