// SPDX-License-Identifier: Apache-2.0

package check

import (
	"github.com/ramjet-rdma/ramjet/internal/system/checkboard"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// maxForeign is how many pairs of operations wait until other processes are asked.
const maxForeign = 64

// foreign is an operation and another one, or the owner's work, that were concurrent if another process has posted one
// of them early enough.
type foreign struct {
	a, b *access
	own  *ownEntry
}

// tell tells other processes of a one-sided operation whose target this one does not have.
func (h *history) tell(l *postLog, p *posted) {
	if h.board == nil || l.dest == 0 || h.peer(l.end) != nil {
		return
	}
	h.board.Post(atTarget(p.op, p.remote, p.length, l.end.qpn, l.dest, l.gid), p.at)
}

// atTarget is a one-sided operation as other processes tell of it.
func atTarget(op verbs.SendOp, remote verbs.Remote, length int, source, dest verbs.QPN,
	gid verbs.GID) *checkboard.Operation {
	return &checkboard.Operation{Op: uint8(operations[op].seen), Source: uint32(source), Dest: uint32(dest), GID: gid,
		Key: uint32(remote.Key), Length: uint32(length), Addr: remote.Addr}
}

// ask has other processes asked when they have posted operations, from a place where no device's lock is held.
func (h *history) ask(f foreign) {
	if h.board == nil || len(h.foreign) == maxForeign || f.b != nil && !f.a.conflicts(f.b) {
		return
	}
	if f.a.unknown() || f.b != nil && f.b.unknown() {
		if f.a.kept = true; f.b != nil {
			f.b.kept = true
		}
		h.foreign = append(h.foreign, f)
		h.waiting.Store(true)
	}
}

// unknown reports whether it is not known when an operation was posted.
func (a *access) unknown() bool { return a.by == nil && a.sent == 0 }

// resolve asks other processes, and reports the operations that were concurrent, and WRITEs that were announced too
// early. It asks, too, of WRITEs that are under way on queue pairs that end.
func (h *history) resolve(ends func(l *postLog) bool) {
	if h.board == nil {
		return
	}
	h.mu.Lock()
	for l := range h.pending {
		if ends(l) {
			h.leaves(l)
		}
	}
	all, unknown := h.foreign, h.unknown
	h.foreign, h.unknown = nil, nil
	var questions []question
	for _, f := range all {
		questions = append(questions, h.questions(f.a)...)
		if f.b != nil {
			questions = append(questions, h.questions(f.b)...)
		}
	}
	h.mu.Unlock()
	for i := range questions { // devices need not wait for that
		q := &questions[i]
		q.at = h.board.Posted(&q.op, q.after, q.before)
	}
	for _, u := range unknown {
		u.ask(h.board)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, u := range unknown {
		h.answeredNoticed(u)
	}
	for _, q := range questions {
		q.access.sent = max(q.access.sent, q.at)
	}
	for _, f := range all {
		switch {
		case f.own != nil && h.unordered(f.a, f.own.posted):
			h.foundOwner(f.a, f.own)
		case f.own == nil && f.a.concurrent(f.b):
			h.foundRace(f.b, f.a)
		}
	}
}

// question is when an operation was posted. The peer may have posted others like it: then it counts as the last one
// before the operation began.
type question struct {
	access        *access
	op            checkboard.Operation
	after, before uint64
	at            uint64
}

// questions returns the questions to other processes about an operation: by each of the addresses that the peer may
// know.
func (h *history) questions(a *access) (all []question) {
	l := h.logs[a.at]
	if !a.unknown() || l == nil || l.dest == 0 {
		return nil
	}
	for i := range a.at.dev.gids {
		op := atTarget(a.op, a.remote, int(a.hi-a.lo), l.dest, a.at.qpn, a.at.dev.gids[i].GID)
		all = append(all, question{access: a, op: *op, after: l.since, before: a.began})
	}
	return all
}
