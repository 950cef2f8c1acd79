package manifest

import (
	"math"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// eachPast passes the previous revisions of a path, newest first, until f returns false.
func (s *state) eachPast(p fsops.Path, f func(*revision) bool) {
	first := &revision{item: item{Node: files.Node{Path: p}}, place: math.MaxInt64}
	s.past.AscendGreaterOrEqual(first, func(r *revision) bool { return r.Path.Key() == p.Key() && f(r) })
}

// newest returns the newest previous revision of a path; nil when there is none.
func (s *state) newest(p fsops.Path) (out *revision) {
	s.eachPast(p, func(r *revision) bool { out = r; return false })
	return out
}

// pastOf returns one previous revision of a path; nil when it is not kept.
func (s *state) pastOf(p fsops.Path, name string) (out *revision) {
	s.eachPast(p, func(r *revision) bool {
		if r.Revision == name {
			out = r
		}
		return out == nil
	})
	return out
}

// revisions is one page of the previous revisions of a path.
func (s *state) revisions(p fsops.Path, after string, limit int) (out []files.Node, more bool, err error) {
	begun := after == ""
	s.eachPast(p, func(r *revision) bool {
		switch {
		case !begun:
			begun = r.Revision == after
		case len(out) == limit:
			more = true
			return false
		default:
			out = append(out, r.Node)
		}
		return true
	})
	if !begun {
		return nil, false, fsops.ErrTokenInvalid("page_token")
	}
	return out, more, nil
}

// dropPast drops the oldest previous revisions of a path.
func (s *state) dropPast(p fsops.Path, number int64, now time.Time) {
	var all []*revision
	s.eachPast(p, func(r *revision) bool { all = append(all, r); return true })
	for i := len(all) - 1; i >= 0 && number > 0; i, number = i-1, number-1 {
		s.dropRevision(all[i], now)
	}
}

// agePast drops the previous revisions that were replaced before a time.
func (s *state) agePast(before, now time.Time) {
	var old []*revision
	s.past.Ascend(func(r *revision) bool {
		if r.Replaced.Before(before) {
			old = append(old, r)
		}
		return true
	})
	for _, r := range old {
		s.dropRevision(r, now)
	}
}

func (s *state) dropRevision(r *revision, now time.Time) {
	s.past.Delete(r)
	s.weight -= r.weigh()
	s.loosen(r.pieces, now)
}

// used are the pieces that something refers to, but for what is left to the sweep.
func (s *state) used() map[piece]bool {
	used := make(map[piece]bool, s.nodes.Len())
	add := func(pieces []piece) {
		for _, p := range pieces {
			used[p] = true
		}
	}
	s.nodes.Ascend(func(it *item) bool { add(it.pieces); return true })
	s.past.Ascend(func(r *revision) bool { add(r.pieces); return true })
	for _, p := range s.packs {
		add(p.pieces)
	}
	return used
}
