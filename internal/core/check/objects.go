// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ramjet-rdma/ramjet/internal/core/calllog"
	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// objects are the objects of a device.
type objects struct {
	all     map[any]*object
	gone    []any // destroyed objects, the oldest first: as many as are remembered
	qps     map[verbs.QPN]*queuePair
	srqs    map[*verbs.SRQ]*recvQueue
	cqs     map[*verbs.CQ]*completionQueue
	regions map[verbs.Key]*region
	windows map[verbs.Key]*window // by their keys without keyPortion
}

// inOrder returns the values of a map by their keys: reports come in the same order each time.
func inOrder[K cmp.Ordered, V any](m map[K]V) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

// maxGone is how many destroyed objects are remembered.
const maxGone = 1024

func newObjects() objects {
	return objects{all: map[any]*object{}, qps: map[verbs.QPN]*queuePair{},
		srqs: map[*verbs.SRQ]*recvQueue{}, cqs: map[*verbs.CQ]*completionQueue{}, regions: map[verbs.Key]*region{},
		windows: map[verbs.Key]*window{}}
}

// object is an object of package verbs.
type object struct {
	kind string
	n    int
	pd   any // its protection domain, or XRC domain; nil: none
	made Place
	gone *Place // where it was destroyed; nil: it exists
	// cached says that a library has registered memory which another part of the program has given back to the heap. It
	// is a cache of registrations, which keeps the region for who gets the memory next, be it the library itself.
	cached bool
	entry  int // of the process's record; 0: none
}

// name is as the log of calls names it, such as qp1.
func (o *object) name() string { return fmt.Sprintf("%s%d", o.kind, o.n) }

// nameOf returns the name of an object.
func (d *Device) nameOf(v any) string {
	if o := d.known.all[v]; o != nil {
		return o.name()
	}
	return "an object that is not known"
}

// region is a memory region.
type region struct {
	mr     *verbs.MR
	base   uint64
	pd     any
	access verbs.Access
	gone   atomic.Bool // nobody writes to its memory any more
	freed  bool        // that its memory was freed has been reported
	own    *ownWork    // of the history, under its lock; nil: there is none yet
}

// queuePair is a queue pair, with its work requests that have no polled completion.
type queuePair struct {
	qp    *verbs.QP
	pd    any
	init  verbs.QPInit
	cap   verbs.QPCap
	state verbs.QPState

	maxDestRdAtomic uint8

	post       sync.Mutex // held while work requests are posted, so that they are in order
	posting    batch[verbs.SendWR]
	sends      []*request // in order
	early      []*request // those before a completion that was polled first, by another goroutine
	recvs      recvQueue
	unsignaled int            // work requests since the last signaled one
	flushes    bool           // the flush of a send has been polled
	failed     bool           // another error of a send has been polled
	refusal    *verbs.Failure // of a request of the peer, that has been looked at
	rnr        rnr
	packets    *observe.Capture // nil: there are none
}

// recvQueue has the receives of a queue pair or of a shared receive queue that have no polled completion.
type recvQueue struct {
	srq     *verbs.SRQ // nil: of a queue pair
	post    sync.Mutex
	posting batch[verbs.RecvWR]
	recvs   map[uint64]*request
	count   uint64 // receives that were posted

	datagrams bool // a UD queue pair takes them
}

// batch is the list of work requests being posted to a queue, under the queue's lock for that.
type batch[WR any] struct {
	wrs      []WR
	requests []*request
}

// begin copies work requests, so that the copies may be changed. The list of requests is to be filled in.
func (b *batch[WR]) begin(wrs []WR) ([]WR, []*request) {
	b.wrs = append(b.wrs[:0], wrs...)
	b.requests = slices.Grow(b.requests[:0], len(wrs))[:len(wrs)]
	return b.wrs, b.requests
}

// end forgets them: the device has its own copies.
func (b *batch[WR]) end() {
	clear(b.wrs)
	clear(b.requests)
}

// completionQueue is a completion queue.
type completionQueue struct {
	cq          *verbs.CQ
	cqe         int // as asked for
	channel     *verbs.CompChannel
	outstanding int      // work requests that complete there
	reported    bool     // that it can overflow
	ends        []ending // room for a poll's

	polls   uint64
	armed   bool   // an event was asked for, and has not been taken
	armedAt uint64 // so many polls
	busy    bool   // it had completions then
}

// created notes an object that a call is about to create in a protection domain. access is of a region.
func (d *Device) created(kind string, pd any, access verbs.Access) done {
	place := at("It was created")
	return func(result any, _ []driver.CallArg) {
		d.mu.Lock()
		defer d.mu.Unlock()
		o := &object{kind: kind, n: d.c.number(kind), pd: pd, made: place}
		d.known.all[result] = o
		d.keep(o)
		switch v := result.(type) {
		case *verbs.MR:
			d.known.regions[v.LKey()] = &region{mr: v, base: v.Addr(), pd: pd, access: access}
		case *verbs.MW:
			d.known.windows[v.RKey()&^keyPortion] = &window{mw: v}
		case *verbs.SRQ:
			d.known.srqs[v] = &recvQueue{srq: v, recvs: map[uint64]*request{}}
		}
	}
}

func (d *Device) newCQ(cq *verbs.CQ, asked int, channel *verbs.CompChannel) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known.cqs[cq] = &completionQueue{cq: cq, cqe: asked, channel: channel}
}

func (d *Device) resized(cq *verbs.CQ, n int, place Place) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.known.cqs[cq]; c != nil {
		c.cqe, c.reported = n, false
		d.overflow(cq, place)
	}
}

func (d *Device) newQP(qp *verbs.QP, init verbs.QPInit) {
	limits := qp.Query().Cap
	if d.c.handles != nil { // C programs are told that they were granted no more
		limits.MaxInline = init.Cap.MaxInline
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	q := &queuePair{qp: qp, pd: d.known.all[qp].pd, init: init, cap: limits}
	q.recvs.recvs = map[uint64]*request{}
	d.keepPackets(q)
	d.known.qps[qp.Num()] = q
	d.sharesDatagrams(q, d.known.all[qp].made)
	d.c.history.opened(endpoint{d, qp.Num()}, d.nameOf(qp), &q.init)
}

// modified follows the attributes of a queue pair.
func (d *Device) modified(qp *verbs.QP, attr verbs.QPAttr, mask verbs.QPMask) done {
	return func(any, []driver.CallArg) {
		d.mu.Lock()
		defer d.mu.Unlock()
		q := d.known.qps[qp.Num()]
		if q == nil {
			return
		}
		if mask&verbs.MaskMaxDestRdAtomic != 0 {
			q.maxDestRdAtomic = attr.MaxDestRdAtomic
		}
		if mask&verbs.MaskDestQPN != 0 {
			d.c.history.connected(endpoint{d, qp.Num()}, attr.DestQPN, attr.AH.DGID)
		}
		d.c.history.depths(endpoint{d, qp.Num()}, &attr, mask)
		if mask&verbs.MaskState == 0 {
			return
		}
		q.state = attr.State
		if q.state == verbs.StateReset || q.state == verbs.StateError {
			d.c.history.stopped(endpoint{d, qp.Num()})
		}
		if q.state == verbs.StateReset {
			d.c.history.reset(endpoint{d, qp.Num()})
			d.dropAll(q)
		}
	}
}

// rereg follows a region whose memory, domain or access has changed.
func (d *Device) rereg(mr *verbs.MR, flags verbs.ReregFlags, pd *verbs.PD, access verbs.Access) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.known.all[mr]
	old, key := d.dropRegion(mr)
	if o == nil || old == nil {
		return
	}
	if key != mr.RKey() {
		d.dead.add(key, o, at("It was reregistered"))
	}
	if flags&verbs.ReregTranslation != 0 {
		old.gone.Store(true)
	}
	if flags&verbs.ReregPD != 0 {
		o.pd = pd
	}
	if flags&verbs.ReregAccess == 0 {
		access = old.access
	}
	d.known.regions[mr.LKey()] = &region{mr: mr, base: mr.Addr(), pd: o.pd, access: access}
}

// dropRegion forgets a region, and returns it with its key; nil: it was not known.
func (d *Device) dropRegion(mr *verbs.MR) (*region, verbs.Key) {
	for key, r := range d.known.regions {
		if r.mr == mr {
			delete(d.known.regions, key)
			d.c.history.disown(owned{d, key})
			return r, key
		}
	}
	return nil, 0
}

// destroyed notes an object that a call is about to destroy.
func (d *Device) destroyed(v any) done {
	place := at("It was destroyed")
	return func(any, []driver.CallArg) {
		d.mu.Lock()
		defer d.mu.Unlock()
		o := d.known.all[v]
		if o == nil || o.gone != nil {
			return
		}
		o.gone = &place
		d.drop(o)
		d.known.gone = append(d.known.gone, v)
		if len(d.known.gone) > maxGone {
			delete(d.known.all, d.known.gone[0])
			d.known.gone = slices.Delete(d.known.gone, 0, 1)
		}
		switch v := v.(type) {
		case *verbs.MR:
			d.dead.add(v.RKey(), o, place)
			if r, _ := d.dropRegion(v); r != nil {
				r.gone.Store(true)
			}
		case *verbs.MW:
			d.unbind(v.RKey(), place, "It was deallocated")
			delete(d.known.windows, v.RKey()&^keyPortion)
		case *verbs.CQ:
			delete(d.known.cqs, v)
		case *verbs.SRQ:
			if q := d.known.srqs[v]; q != nil {
				d.dropRecvs(q)
			}
			delete(d.known.srqs, v)
		}
	}
}

// forget drops a queue pair that was destroyed.
func (d *Device) forget(qp *verbs.QP) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n, q := range d.known.qps {
		if q.qp == qp {
			d.dropAll(q)
			if q.packets != nil {
				q.packets.Close()
			}
			delete(d.known.qps, n)
			d.c.history.closed(endpoint{d, n})
		}
	}
}

// used reports a call with an object that was destroyed. Closing twice is allowed in Go. C programs are checked as they
// name objects, see Handles.
func (d *Device) used(call string, v any) {
	if d.c.handles != nil || v == nil || !reflect.TypeOf(v).Comparable() {
		return
	}
	o := d.known.all[v]
	if o == nil || o.gone == nil || calllog.Destroys(call) {
		return
	}
	d.c.Report(&Finding{UseAfterDestroy, fmt.Sprintf("%s was given %s.", call, o.name()),
		[]Place{at("It was used"), *o.gone, o.made}})
}

// left reports the objects that a program has not destroyed.
func (d *Device) left() {
	var names []string
	var first *object
	for _, o := range d.known.all {
		if o.gone == nil {
			names = append(names, o.name())
			if first == nil || o.made.When.Before(first.made.When) {
				first = o
			}
		}
	}
	if first == nil {
		return
	}
	slices.Sort(names)
	d.c.Report(&Finding{Leak, fmt.Sprintf("%d are left: %s. The first is %s.", len(names), strings.Join(names, ", "),
		first.name()),
		[]Place{first.made}})
}

var _ driver.Checker = (*Device)(nil)
var _ driver.CallLog = (*Device)(nil)
