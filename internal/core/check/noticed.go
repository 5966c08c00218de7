// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/system/checkboard"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	// maxRecent is how many work requests to other processes are remembered by which these may learn of WRITEs.
	maxRecent = 16
	// maxUnknown is how many WRITEs wait until other processes are asked.
	maxUnknown = 64
)

// recent is a work request that another process notices.
type recent struct {
	*posted
	log  *postLog
	dest verbs.QPN
}

// unknown is a WRITE to another process that may have been told of it too early, by one of several work requests.
type unknown struct {
	write  *posted
	log    *postLog
	dest   verbs.QPN
	news   []recent
	before uint64 // the time at which the program knew that the WRITE had ended
	at     uint64 // of the notice; 0: there was none
	by     recent
}

// announce remembers a work request that another process notices.
func (h *history) announce(l *postLog, p *posted) {
	if h.board == nil || l.typ != verbs.RC || l.dest == 0 || h.peer(l.end) != nil {
		return
	}
	if len(h.recent) == maxRecent {
		h.recent = append(h.recent[:0], h.recent[1:]...)
	}
	p.kept = true
	h.recent = append(h.recent, recent{p, l, l.dest})
}

// askNoticed has another process asked whether it heard of work requests that were posted behind a WRITE, on other
// queue pairs, before the clock said before. It reports whether there are any.
func (h *history) askNoticed(l *postLog, p *posted, before uint64) bool {
	if h.board == nil || len(h.recent) == 0 || h.recent[len(h.recent)-1].at < p.at || h.peer(l.end) != nil ||
		len(h.unknown) == maxUnknown {
		return false
	}
	u := &unknown{write: p, log: l, dest: l.dest, before: before}
	for _, r := range h.recent {
		if r.at > p.at && r.at < before && !r.void && r.log != l && r.log.end.dev == l.end.dev && r.log.gid == l.gid {
			u.news = append(u.news, r)
		}
	}
	if len(u.news) == 0 {
		return false
	}
	p.kept = true
	h.unknown = append(h.unknown, u)
	h.waiting.Store(true)
	return true
}

// leaves has other processes asked of the WRITEs of a queue pair that ends before their completions were polled.
func (h *history) leaves(l *postLog) {
	now := h.tick()
	h.forget(l, slices.DeleteFunc(l.unannounced, func(p *posted) bool { return h.askNoticed(l, p, now) }))
}

// ask finds out which work request the other process noticed too early, without the history's lock.
func (u *unknown) ask(b *checkboard.Board) {
	for _, r := range u.news {
		for i := range u.log.end.dev.gids {
			gid := u.log.end.dev.gids[i].GID
			c := checkboard.Connection{Source: uint32(u.write.end.qpn), Dest: uint32(u.dest), GID: gid}
			op := noticed(r.posted, r.end.qpn, r.dest, gid)
			if at := b.Noticed(op, &c, r.at, u.before); at != 0 {
				u.at, u.by = at, r
				return
			}
		}
	}
}

// answeredNoticed notes what another process has said of a WRITE.
func (h *history) answeredNoticed(u *unknown) {
	switch {
	case u.at != 0:
		heard := Place{What: "Another process, which does not tell the place, noticed it", When: time.Now()}
		h.keepEarly(&early{write: u.write, news: u.by.posted, log: u.log, other: u.by.log, heard: heard})
	case u.write.done != 0:
		u.log.silent = max(u.log.silent, u.write.done)
	}
}

// noticed is the work request of a source as its destination tells that it has noticed it.
func noticed(p *posted, source, dest verbs.QPN, gid verbs.GID) *checkboard.Operation {
	op := atTarget(p.op, p.remote, p.length, source, dest, gid)
	if operations[p.op].message {
		op = &checkboard.Operation{Op: uint8(verbs.OpSend), Source: uint32(source), Dest: uint32(dest), GID: gid,
			Addr: p.number}
	}
	op.Op |= checkboard.Noticed
	return op
}

// tellNoticed tells the peer of a queue pair, which another process has, that the program has noticed its work request.
func (h *history) tellNoticed(at endpoint, p *posted) {
	l := h.logs[at]
	if h.board == nil || l == nil || l.typ != verbs.RC || l.dest == 0 || h.peer(at) != nil {
		return
	}
	h.board.Post(noticed(p, l.dest, at.qpn, l.gid), h.tick())
}
