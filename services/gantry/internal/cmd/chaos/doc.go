// Command chaos runs agents on the six services as processes, kills the processes with SIGKILL in the middle, and checks what is left: every run that was
// accepted ends, each of its effects is there once, and each answer, steer and cancel that was acknowledged counted, whichever replica took it.
//
// The model is scripted, so that what a run must leave is known beforehand: lines appended to files, commands in the sandbox, facts, child tasks, lines in a ledger outside. The clients talk to
// a random replica each time, repeat what was not answered, and say some things twice. Processes die at random times: within a step as well as between
// two records.
//
// It prints what it does, and a JSON object in the last line. The exit code is 0 when it ran, whatever it found: the object says what is as it must be.
//
//	make chaos-runs N=1000 [SEED=1]
package main
