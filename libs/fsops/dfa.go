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
	anchored bool // matches begin at the start of a line only
	start    *filterState
	known    map[string]*filterState
	onto     []uint32 // work space: the instructions reached
	marks    []bool
}

// filterState is where the automaton may be, before the byte to come.
type filterState struct {
	next  [256]*filterState // by the byte to come; nil: not computed yet, or the line may match
	maybe [256]bool         // the line may match
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

// maxFilterStates bounds the memory of one automaton to 3 MiB. Beyond it every line may match.
const maxFilterStates = 1024

func newLineFilter(prog *syntax.Prog) *lineFilter {
	f := &lineFilter{prog: prog, known: map[string]*filterState{}, marks: make([]bool, len(prog.Inst))}
	f.anchored = prog.StartCond()&(syntax.EmptyBeginLine|syntax.EmptyBeginText) != 0
	f.start = f.state(nil, prevBegin)
	return f
}

// index returns a place in the first line at or after from, which is where a line begins, that may match; -1 for none.
func (f *lineFilter) index(data []byte, from int) int {
	state := f.start
	for i := from; i < len(data); i++ {
		next := state.next[data[i]]
		if next == nil {
			if next = f.step(state, data[i]); next == nil {
				return i
			}
		}
		state = next
	}
	if len(data) > from && data[len(data)-1] != '\n' && f.step(state, '\n') == nil {
		return len(data) - 1
	}
	return -1
}

// step computes where a byte leads; nil when the line may match.
func (f *lineFilter) step(state *filterState, c byte) *filterState {
	if state.next[c] == nil && !state.maybe[c] {
		state.next[c] = f.compute(state, c)
		state.maybe[c] = state.next[c] == nil
	}
	return state.next[c]
}

func (f *lineFilter) compute(from *filterState, c byte) *filterState {
	if c >= 0x80 {
		return nil
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
		return nil // it may be the end of the line
	}
	if c == '\n' {
		flags |= syntax.EmptyEndLine | syntax.EmptyEndText
	}
	if f.reach(from, flags) {
		return nil
	}
	if c == '\n' {
		return f.start
	}
	var insts []uint32
	for _, pc := range f.onto {
		if inst := &f.prog.Inst[pc]; takesRune(inst.Op) && inst.MatchRune(rune(c)) {
			insts = append(insts, inst.Out)
		}
	}
	slices.Sort(insts)
	if word {
		return f.state(slices.Compact(insts), prevWord)
	}
	return f.state(slices.Compact(insts), prevOther)
}

func takesRune(op syntax.InstOp) bool {
	return op == syntax.InstRune || op == syntax.InstRune1 || op == syntax.InstRuneAny || op == syntax.InstRuneAnyNotNL
}

// state returns the state of these instructions; nil when there are too many states.
func (f *lineFilter) state(insts []uint32, prev lineFilterPrev) *filterState {
	key := []byte{byte(prev)}
	for _, pc := range insts {
		key = binary.AppendUvarint(key, uint64(pc))
	}
	if s, ok := f.known[string(key)]; ok {
		return s
	}
	if len(f.known) >= maxFilterStates {
		return nil
	}
	s := &filterState{insts: insts, prev: prev}
	f.known[string(key)] = s
	return s
}

// reach collects the instructions that a state stands at, given what surrounds the place; true when a match is among them.
func (f *lineFilter) reach(from *filterState, flags syntax.EmptyOp) bool {
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
