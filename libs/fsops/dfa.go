package fsops

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
)

// lineFilter finds lines that may match a regular expression, by a deterministic automaton that is built as it is needed: one look-up a byte, where the
// expression itself takes far longer. It knows ASCII only: a line with another byte may match. What it lets through is tried with the expression.
// It is not safe for concurrent use.
type lineFilter struct {
	prog     *syntax.Prog
	anchored bool           // matches begin at the start of a line only
	next     []int32        // by state and byte
	states   []filterState  // by number
	known    map[string]int // numbers of states
	onto     []uint32       // work space: the instructions reached
	marks    []bool
}

// filterState is where the automaton may be, before the byte to come.
type filterState struct {
	insts []uint32
	prev  lineFilterPrev
}

// lineFilterPrev is what precedes the byte to come, as far as anchors ask.
type lineFilterPrev uint8

const (
	prevBegin lineFilterPrev = iota
	prevWord
	prevOther
)

const (
	filterUnknown = 0 // not computed yet
	filterMaybe   = 1 // the line may match
	filterStart   = 2
	// maxFilterStates bounds the memory of one automaton to 2 MiB. Beyond it every line may match.
	maxFilterStates = 2048
)

func newLineFilter(prog *syntax.Prog) *lineFilter {
	f := &lineFilter{prog: prog, known: map[string]int{}, marks: make([]bool, len(prog.Inst))}
	f.anchored = prog.StartCond()&(syntax.EmptyBeginLine|syntax.EmptyBeginText) != 0
	f.states = make([]filterState, filterStart)
	f.next = make([]int32, filterStart*256)
	f.number(filterState{prev: prevBegin})
	return f
}

// index returns a place in the first line at or after from, which is where a line begins, that may match; -1 for none.
func (f *lineFilter) index(data []byte, from int) int {
	state := int32(filterStart)
	next := f.next
	for i := from; i < len(data); i++ {
		to := next[int(state)<<8|int(data[i])]
		if to >= filterStart {
			state = to
			continue
		}
		if to == filterUnknown {
			to = f.step(state, data[i])
			next = f.next
		}
		if to == filterMaybe {
			return i
		}
		state = to
	}
	if len(data) > from && data[len(data)-1] != '\n' && f.step(state, '\n') == filterMaybe {
		return len(data) - 1
	}
	return -1
}

// step computes where a byte leads.
func (f *lineFilter) step(state int32, c byte) int32 {
	to := f.compute(f.states[state], c)
	f.next[int(state)<<8|int(c)] = to
	return to
}

func (f *lineFilter) compute(from filterState, c byte) int32 {
	if c >= 0x80 {
		return filterMaybe
	}
	word := syntax.IsWordChar(rune(c))
	flags := syntax.EmptyNoWordBoundary
	if word != (from.prev == prevWord) {
		flags = syntax.EmptyWordBoundary
	}
	if from.prev == prevBegin {
		flags |= syntax.EmptyBeginLine | syntax.EmptyBeginText
	}
	if c == '\r' && f.reach(from, flags|syntax.EmptyEndLine|syntax.EmptyEndText) {
		return filterMaybe // it may be the end of the line
	}
	if c == '\n' {
		flags |= syntax.EmptyEndLine | syntax.EmptyEndText
	}
	if f.reach(from, flags) {
		return filterMaybe
	}
	if c == '\n' {
		return filterStart
	}
	next := filterState{prev: prevOther}
	if word {
		next.prev = prevWord
	}
	for _, pc := range f.onto {
		if inst := &f.prog.Inst[pc]; takesRune(inst.Op) && inst.MatchRune(rune(c)) {
			next.insts = append(next.insts, inst.Out)
		}
	}
	slices.Sort(next.insts)
	next.insts = slices.Compact(next.insts)
	return f.number(next)
}

func takesRune(op syntax.InstOp) bool {
	return op == syntax.InstRune || op == syntax.InstRune1 || op == syntax.InstRuneAny || op == syntax.InstRuneAnyNotNL
}

// number returns the number of a state; filterMaybe when there are too many.
func (f *lineFilter) number(s filterState) int32 {
	key := []byte{byte(s.prev)}
	for _, pc := range s.insts {
		key = binary.AppendUvarint(key, uint64(pc))
	}
	if n, ok := f.known[string(key)]; ok {
		return int32(n)
	}
	n := len(f.states)
	if n >= maxFilterStates {
		return filterMaybe
	}
	f.known[string(key)] = n
	f.states = append(f.states, s)
	f.next = append(f.next, make([]int32, 256)...)
	return int32(n)
}

// reach collects the instructions that a state stands at, given what surrounds the place; true when a match is among them.
func (f *lineFilter) reach(from filterState, flags syntax.EmptyOp) bool {
	for _, pc := range f.onto {
		f.marks[pc] = false
	}
	f.onto = f.onto[:0]
	for _, pc := range from.insts {
		f.add(pc)
	}
	if !f.anchored || from.prev == prevBegin {
		f.add(uint32(f.prog.Start))
	}
	for i := 0; i < len(f.onto); i++ {
		switch inst := &f.prog.Inst[f.onto[i]]; inst.Op {
		case syntax.InstMatch:
			return true
		case syntax.InstAlt, syntax.InstAltMatch:
			f.add(inst.Out)
			f.add(inst.Arg)
		case syntax.InstCapture, syntax.InstNop:
			f.add(inst.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg)&^flags == 0 {
				f.add(inst.Out)
			}
		}
	}
	return false
}

func (f *lineFilter) add(pc uint32) {
	if !f.marks[pc] {
		f.marks[pc] = true
		f.onto = append(f.onto, pc)
	}
}
