package loop

// Held are the messages that wait for results of calls.
func (t *Thread) Held() []Entry { return t.held }

// Stuck is the tool whose calls failed for the last time. Empty: none.
func (r *Run) Stuck() string { return r.stuck }

// Failures counts, by call, how often it failed in the same way.
func (r *Run) Failures() map[string]int {
	out := map[string]int{}
	for key, f := range r.failures {
		out[key] = f.count
	}
	return out
}
