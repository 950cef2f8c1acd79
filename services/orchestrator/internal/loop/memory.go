package loop

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// What a thread remembers of its past, beside the conversation, which compaction bounds. All of it is in every checkpoint, so none of it may grow with the thread.
const (
	// KnownRuns bounds the runs that a repeated start is told from. A repeat comes soon after the call, and has the message id of the call, which the
	// store's mailbox knows for ever; the thread itself only needs to know the runs whose repeat may come under another message id, as a steer for instance.
	KnownRuns = 256
	// KeptTasks bounds the tasks that have ended: results that come twice are of recent ones. The open ones end by the deadlines of the task service.
	KeptTasks = 64
	// KnownCalls bounds the ids of calls. A thread that has made so many no longer believes that any id is new: see [Thread.CallIDKnown].
	KnownCalls = 512
	// KnownFailures bounds the failed calls of one run that are watched for repeats; those that failed last the longest ago are forgotten first.
	KnownFailures = 256
)

// Knows says whether the thread had a run of that id, among its last [KnownRuns].
func (t *Thread) Knows(run string) bool { return slices.Contains(t.known, run) }

func (t *Thread) know(run string) {
	if t.Knows(run) {
		return
	}
	if len(t.known) >= KnownRuns {
		t.known = t.known[1:]
	}
	t.known = append(t.known, run)
}

// CallIDKnown says whether a call of that id may have been made in the thread. It may say so of an id that is new, never the other way round: whoever asks
// then makes an id of its own, from the message's, and such an id is always new.
func (t *Thread) CallIDKnown(id string) bool {
	return len(t.callIDs) >= KnownCalls || t.callIDs[callKey(id)]
}

func (t *Thread) knowCall(id string) {
	if len(t.callIDs) >= KnownCalls {
		return
	}
	if t.callIDs == nil {
		t.callIDs = map[uint64]bool{}
	}
	t.callIDs[callKey(id)] = true
}

// callKey stands for an id in eight bytes. Two ids that share a key cost one of them its name.
func callKey(id string) uint64 {
	sum := sha256.Sum256([]byte(id))
	return binary.BigEndian.Uint64(sum[:])
}

// forgetTasks drops the oldest tasks that have ended. Others may hold the list, so it is made anew.
func (t *Thread) forgetTasks() {
	ended := 0
	for _, task := range t.Tasks {
		if task.Ended {
			ended++
		}
	}
	if ended <= KeptTasks {
		return
	}
	kept := make([]Task, 0, len(t.Tasks)-1)
	for _, task := range t.Tasks {
		if task.Ended && ended > KeptTasks {
			ended--
			continue
		}
		kept = append(kept, task)
	}
	t.Tasks = kept
}

// forgetFailures drops the failure that was seen last the longest ago; of equals, the first by key, so that every fold forgets the same.
func (r *Run) forgetFailures() {
	if len(r.failures) <= KnownFailures {
		return
	}
	oldest := ""
	for key, f := range r.failures {
		if o := r.failures[oldest]; oldest == "" || f.step < o.step || f.step == o.step && key < oldest {
			oldest = key
		}
	}
	delete(r.failures, oldest)
}
