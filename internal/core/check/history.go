// SPDX-License-Identifier: Apache-2.0

package check

import (
	"iter"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/internal/system/checkboard"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	// maxAccesses is how many one-sided operations of peers are remembered.
	maxAccesses = 256
	// maxPosted is how many one-sided work requests of a queue pair are remembered.
	maxPosted = 1024
	// maxReads is how many READs of a queue pair are followed at once; verbs.QPAttr allows fewer.
	maxReads = 256
)

// history is a process's knowledge of the order of one-sided operations: when they were posted, for the queue pairs of
// its devices, and when they were carried out in its memory.
//
// Its clock is the host's, and goes on with each event: so operations of other processes have their place. An operation
// that was posted before another was carried out did not wait for it, whatever messages, threads and other networks a
// program uses. So two operations are concurrent if that is so both ways.
type history struct {
	mu       sync.Mutex // of other locks only that of copied is taken while it is held: devices call with theirs held
	clock    uint64
	accesses []*access // a ring, once there are maxAccesses
	extents  [maxAccesses]extent
	next     int
	spare    *access              // to be used again; nil: there is none
	targets  map[endpoint]*target // queue pairs whose peers' operations are in accesses, or have begun
	latest   *target              // of them, the one that was looked for last
	logs     map[endpoint]*postLog
	last     *postLog                  // of logs, the one that was looked for last
	pairs    map[[2]verbs.QPN]*postLog // by the numbers of both ends; nil: several have them
	maybe    []conflict                // READs beside WRITEs, until it is known that nobody read again
	owners   map[owned]*ownWork
	pending  map[*postLog]bool // logs with WRITEs of which the target has not been told
	early    []*early
	recent   []recent
	unknown  []*unknown
	free     reuse[posted]
	partials []partial
	board    *checkboard.Board // of other processes; nil: they are not known
	foreign  []foreign

	waiting atomic.Bool
	found   []unreported
}

// endpoint is an end of a connection.
type endpoint struct {
	dev *Device
	qpn verbs.QPN
}

// target is a queue pair at whose peer's order operations are carried out.
type target struct {
	end   endpoint
	kept  int       // how many of its operations the history has
	open  *access   // the WRITE or atomic that has begun; nil: there is none
	reads []*access // READs that have begun, the oldest first
}

// extent is the memory of an access, and its queue pair: they are looked through more often than accesses, and are in
// one piece.
type extent struct {
	at     endpoint
	lo, hi uintptr
}

// access is a one-sided operation of a peer in the memory of this process.
type access struct {
	slot    int // its place among the others, until another one has it
	at      endpoint
	op      verbs.SendOp
	remote  verbs.Remote
	lo, hi  uintptr // the memory: from lo up to hi
	began   uint64
	last    uint64 // when all but the last bytes were carried out: who sees these knows it no earlier
	ended   uint64 // 0: it has not
	by      *posted
	sent    uint64 // when another process has posted it, which has told so; 0: not known
	from    *postLog
	mem     []byte
	sum     uint64 // of the memory before
	summed  int    // bytes of it that the digest is of
	changed bool   // it has changed the memory, as far as is known
	kept    bool   // something else than the ring and its queue pair has it
}

// posted is a work request.
type posted struct {
	end    endpoint
	id     uint64
	op     verbs.SendOp
	recv   bool // it is a receive
	remote verbs.Remote
	length int
	number uint64 // of a message, among its queue pair's
	at     uint64
	done   uint64  // when its completion was polled; 0: it was not
	heard  uint64  // of a message: when its receiver polled a receive for the first time after it was posted; 0: never
	from   *posted // of a receive whose completion was polled: the message, if it is known
	void   bool    // the device has refused it
	place  Place
	refs   int  // how many of its request, its queue pair's records and its regions have it
	kept   bool // something else has it
}

// postLog has the last work requests of a queue pair.
type postLog struct {
	end   endpoint
	name  string
	typ   verbs.QPType
	cqs   [2]*verbs.CQ  // of sends, of receives
	dest  verbs.QPN     // 0: not known
	gid   verbs.GID     // of the peer's port
	since uint64        // when it was connected
	sided ring[*posted] // one-sided ones
	messages
	ordering
	rd       uint8 // max_rd_atomic
	destRd   uint8 // max_dest_rd_atomic
	hasDest  bool
	reported bool // that the peer takes fewer READs
}

func newHistory() *history {
	return &history{targets: map[endpoint]*target{}, logs: map[endpoint]*postLog{}, pairs: map[[2]verbs.QPN]*postLog{},
		owners: map[owned]*ownWork{}, pending: map[*postLog]bool{}}
}

func (h *history) tick() uint64 {
	h.clock++
	if h.board != nil {
		h.clock = max(h.clock, h.board.Now())
	}
	return h.clock
}

// tickAt is tick for who knows what time it is.
func (h *history) tickAt(t time.Time) uint64 {
	h.clock++
	if h.board != nil {
		h.clock = max(h.clock, h.board.At(t))
	}
	return h.clock
}

// log returns the log of a queue pair; nil: it is not known. Most calls are for the same one as the call before.
func (h *history) log(e endpoint) *postLog {
	if l := h.last; l != nil && l.end == e {
		return l
	}
	l := h.logs[e]
	if l != nil {
		h.last = l
	}
	return l
}

// opened notes a queue pair.
func (h *history) opened(e endpoint, name string, init *verbs.QPInit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = nil
	h.logs[e] = &postLog{end: e, name: name, typ: init.Type, cqs: [2]*verbs.CQ{init.SendCQ, init.RecvCQ}}
}

// connected notes the peer of a queue pair.
func (h *history) connected(e endpoint, dest verbs.QPN, gid verbs.GID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.logs[e]
	if l == nil {
		return
	}
	l.gid, l.since = gid, h.tick()
	if dest == l.dest {
		return
	}
	h.unpair(l)
	l.dest = dest
	if h.board != nil {
		h.board.Connect(&checkboard.Connection{Source: uint32(dest), Dest: uint32(e.qpn), GID: gid})
	}
	key := [2]verbs.QPN{e.qpn, dest}
	if _, ok := h.pairs[key]; ok {
		h.pairs[key] = nil
		return
	}
	h.pairs[key] = l
}

func (h *history) unpair(l *postLog) {
	key := [2]verbs.QPN{l.end.qpn, l.dest}
	if h.pairs[key] == l {
		delete(h.pairs, key)
	}
	l.dest = 0
}

// depths notes how many READs and atomics a queue pair may have outstanding, and takes from its peer.
func (h *history) depths(e endpoint, attr *verbs.QPAttr, mask verbs.QPMask) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.logs[e]
	if l == nil {
		return
	}
	if mask&verbs.MaskMaxRdAtomic != 0 {
		l.rd = attr.MaxRdAtomic
	}
	if mask&verbs.MaskMaxDestRdAtomic != 0 {
		l.destRd, l.hasDest = attr.MaxDestRdAtomic, true
	}
}

// closed forgets a queue pair. What it has done in memory is remembered.
func (h *history) closed(e endpoint) {
	h.resolve(func(l *postLog) bool { return l.end == e })
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.logs[e]; l != nil {
		h.announced(l)
		delete(h.pending, l)
		h.unpair(l)
		delete(h.logs, e)
		h.last = nil
	}
	h.abandon(e)
}

// reset forgets the messages of a queue pair that begins anew.
func (h *history) reset(e endpoint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.logs[e]; l != nil {
		l.messages = messages{}
	}
}

// stopped forgets what has begun on a queue pair that does not go on.
func (h *history) stopped(e endpoint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.abandon(e)
}

// abandon forgets what has begun on a queue pair and will not end.
func (h *history) abandon(e endpoint) {
	drop := func(a *access) {
		if h.accesses[a.slot] == a {
			h.place(a.slot, nil, extent{})
		}
	}
	t := h.targets[e]
	if t == nil {
		return
	}
	open, reads := t.open, t.reads
	t.open, t.reads = nil, nil
	if open != nil {
		e.dev.c.copied.add(open.mem)
		drop(open)
	}
	for _, a := range reads {
		drop(a)
	}
	h.leave(t, 0)
}

// target returns a queue pair at which operations were carried out; nil: there are none. Most calls are for the one of
// the call before.
func (h *history) target(e endpoint) *target {
	if t := h.latest; t != nil && t.end == e {
		return t
	}
	t := h.targets[e]
	if t != nil {
		h.latest = t
	}
	return t
}

// enter returns a queue pair at which an operation is carried out.
func (h *history) enter(e endpoint) *target {
	if t := h.target(e); t != nil {
		return t
	}
	t := &target{end: e}
	h.targets[e], h.latest = t, t
	return t
}

// leave takes n operations of a queue pair out of the history, and forgets it once it has no others.
func (h *history) leave(t *target, n int) {
	t.kept -= n
	if t.kept == 0 && t.open == nil && len(t.reads) == 0 {
		delete(h.targets, t.end)
		h.latest = nil
	}
}

// peer returns the other end of a queue pair, if this process has it.
func (h *history) peer(e endpoint) *postLog {
	l := h.log(e)
	if l == nil || l.dest == 0 {
		return nil
	}
	return h.pairs[[2]verbs.QPN{l.dest, e.qpn}]
}

// post notes a work request of a send queue that is about to be posted.
func (h *history) post(e endpoint, wr *verbs.SendWR, r *request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.log(e)
	if l == nil {
		return
	}
	p := h.free.take()
	*p = posted{end: e, id: wr.ID, op: wr.Op, remote: wr.Remote, length: len(wr.Inline) + listed(wr.SGL),
		at: h.tickAt(r.posted.When), place: r.posted, refs: 1, kept: operations[wr.Op].message}
	r.noted = p
	h.own(p, r.pieces)
	if operations[wr.Op].message {
		l.send(p, wr.RemoteQPN)
	}
	h.order(l, p)
	if operations[wr.Op].seen == 0 {
		return
	}
	h.tell(l, p)
	p.refs++
	if old, full := l.sided.add(p, maxPosted); full {
		h.release(old)
	}
}

// unposted undoes post for the last work requests of a queue pair, which the device has refused.
func (h *history) unposted(e endpoint, all []*request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range all {
		if p := r.noted; p != nil {
			p.void, p.done = true, h.tick()
			if l := h.logs[e]; l != nil && operations[p.op].message {
				l.unsend()
			}
		}
	}
}

// release gives up a reference to a work request. The memory of one that nothing has any more is used again: there is
// one for each that is posted.
func (h *history) release(p *posted) {
	if p.refs--; p.refs == 0 && !p.kept && len(h.free) < maxPosted {
		h.free.give(p)
	}
}

// find returns the last work request that may be the operation a. It may be a later one like it: so an operation counts
// as posted later than it was, never earlier.
func (l *postLog) find(a *access) *posted {
	for i := range l.sided.all {
		p := l.sided.newest(i)
		if p.remote == a.remote && operations[p.op].seen == a.op && !p.void {
			p.kept = true
			return p
		}
	}
	return nil
}

// watcher follows the operations of peers on a device.
type watcher struct {
	h *history
	d *Device
}

func (w watcher) Begin(qpn verbs.QPN, op verbs.SendOp, remote verbs.Remote, b []byte) {
	h, e := w.h, endpoint{w.d, qpn}
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.spare
	if h.spare = nil; a == nil {
		a = &access{}
	}
	*a = access{at: e, op: op, remote: remote, mem: b, changed: true}
	a.lo = uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	a.hi = a.lo + uintptr(len(b))
	if l := h.peer(e); l != nil {
		if a.by = l.find(a); a.by != nil {
			a.from = l
		}
	}
	t := h.enter(e)
	if a.reads() {
		if len(t.reads) >= maxReads {
			return
		}
		t.reads = append(t.reads, a)
	} else {
		if old := t.open; old != nil { // a message that was cut short
			old.ended, old.last, old.changed = h.tick(), old.began, false
			w.d.c.copied.add(old.mem)
		}
		t.open = a
	}
	h.summarize(a)
	a.began = h.tick()
	a.last = a.began
	h.keep(a)
}

// keep remembers an operation, in the place of the oldest if there are many.
func (h *history) keep(a *access) {
	a.slot = h.next
	h.next = (h.next + 1) % maxAccesses
	if a.slot == len(h.accesses) {
		h.accesses = append(h.accesses, nil)
	}
	if old := h.accesses[a.slot]; old != nil && old.ended != 0 && !old.kept {
		h.spare = old
	}
	h.place(a.slot, a, extent{a.at, a.lo, a.hi})
}

// place has an operation take the place of another; nil: it is empty.
func (h *history) place(slot int, a *access, e extent) {
	old, none := h.extents[slot].at, endpoint{}
	h.accesses[slot], h.extents[slot] = a, e
	if old == e.at {
		return
	}
	if e.at != none {
		h.enter(e.at).kept++
	}
	if old != none {
		h.leave(h.target(old), 1)
	}
}

// meeting returns the operations of other queue pairs that have bytes in common with an operation, which one of the two
// at least changes.
func (h *history) meeting(a *access) iter.Seq[*access] {
	return func(yield func(*access) bool) {
		if t := h.target(a.at); t != nil && t.kept == len(h.accesses) {
			return
		}
		for i := range h.accesses {
			e := &h.extents[i]
			if e.at == a.at || e.lo >= a.hi || a.lo >= e.hi {
				continue
			}
			if o := h.accesses[i]; (!a.reads() || !o.reads()) && !yield(o) {
				return
			}
		}
	}
}

// summarize takes a digest of the memory of an operation that may be in conflict with another.
func (h *history) summarize(a *access) {
	if a.summed > 0 || a.reads() {
		return
	}
	for range h.meeting(a) {
		a.sum, _ = digest(a.mem)
		a.summed = len(a.mem)
		return
	}
}

// writing reports whether a peer's WRITE to memory of a device has begun, and has not ended: its bytes come one after
// another.
func (h *history) writing(d *Device, b []byte) bool {
	lo := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	h.mu.Lock()
	defer h.mu.Unlock()
	for e, t := range h.targets {
		if a := t.open; a != nil && e.dev == d && a.lo < lo+uintptr(len(b)) && lo < a.hi {
			return true
		}
	}
	return false
}

func (w watcher) Extend(qpn verbs.QPN, b []byte) {
	h := w.h
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.target(endpoint{w.d, qpn})
	if t == nil || t.open == nil || len(b) == 0 {
		return
	}
	a := t.open
	if lo := uintptr(unsafe.Pointer(unsafe.SliceData(b))); lo == a.hi {
		a.hi += uintptr(len(b))
		a.mem = unsafe.Slice(unsafe.SliceData(a.mem), len(a.mem)+len(b))
		if h.accesses[a.slot] == a {
			h.extents[a.slot].hi = a.hi
		}
		h.summarize(a)
	}
}

func (w watcher) Last(qpn verbs.QPN) {
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	if t := w.h.target(endpoint{w.d, qpn}); t != nil && t.open != nil {
		t.open.last = w.h.tick()
	}
}

func (w watcher) End(qpn verbs.QPN, op verbs.SendOp, b []byte, done bool) {
	h, e := w.h, endpoint{w.d, qpn}
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.target(e)
	if t == nil {
		return
	}
	a, reads := t.open, !operations[op].changes
	if reads {
		a = h.endRead(t, b)
	} else {
		t.open = nil
	}
	h.leave(t, 0) // later ones may have taken its place in the history
	if a == nil || a.ended != 0 {
		return
	}
	a.ended = h.tick()
	if reads {
		a.last = a.ended // its answer has not been sent yet
	} else {
		w.d.c.copied.add(a.mem)
	}
	if a.summed > 0 {
		now, ok := digest(a.mem[:a.summed])
		a.changed = ok && now != a.sum
	}
	a.changed = a.changed && done
	a.mem = nil
	h.judge(a)
	h.judgeOwner(a)
}

// endRead returns the READ of b, and forgets those before it, which are asked for again.
func (h *history) endRead(t *target, b []byte) *access {
	lo := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	for i, a := range t.reads {
		if a.lo == lo && a.hi-a.lo == uintptr(len(b)) {
			for _, lost := range t.reads[:i] {
				lost.ended, lost.last = h.tick(), lost.began
			}
			t.reads = append(t.reads[:0], t.reads[i+1:]...)
			return a
		}
	}
	return nil
}
