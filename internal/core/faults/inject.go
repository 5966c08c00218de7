// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Injector decides when the faults of one device strike. Its methods may be called from any goroutine.
type Injector struct {
	device string
	log    *Log

	seed    uint64
	mu      sync.Mutex
	faults  []*state
	struck  uint64 // strikes so far
	counted [kinds]uint64
	of      map[uint32]*[kinds]uint64 // of existing queue pairs, by number
	past    []Result                  // of faults that were ended before, which have struck
	record  *recordHeader             // nil: none is kept
}

// state is a fault, and how often it has struck.
type state struct {
	Fault
	*tally
	rand  *rand.Rand
	next  int           // the first of Nth that may still come
	free  time.Duration // of Rate: when the last packet has left
	begun bool          // of a fault that strikes all that it selects: the log has it
}

// tally is how often a fault has struck.
type tally struct {
	seen   uint64 // of the selected ones
	struck uint64 // of these
	missed uint64 // 1: an event's time has come, and there was nothing to raise it on
}

// NewInjector makes an injector of the faults of set that concern a device, which is named as the program has opened
// it.
func NewInjector(set *Set, device string, log *Log) *Injector {
	in := &Injector{device: device, log: log, of: map[uint32]*[kinds]uint64{}}
	in.add(set)
	return in
}

func (in *Injector) add(set *Set) {
	for _, f := range set.Faults {
		if !f.on(in.device) {
			continue
		}
		f.Nth = sortSpans(f.Nth)
		// Its random numbers follow from the seed and from its text without the device, not from other faults.
		h := fnv.New64a()
		of := f
		of.Device = ""
		h.Write([]byte(of.String()))
		in.faults = append(in.faults, &state{Fault: f, tally: &tally{},
			rand: rand.New(rand.NewPCG(set.Seed, h.Sum64()))})
	}
	in.seed = set.Seed
}

// random reports whether something depends on chance.
func (in *Injector) random() bool {
	return slices.ContainsFunc(in.faults, func(s *state) bool {
		return s.Chance > 0 || s.Jitter > 0 || s.Kind == Reorder
	})
}

// Faults returns the faults.
func (in *Injector) Faults() []Fault {
	in.mu.Lock()
	defer in.mu.Unlock()
	all := make([]Fault, len(in.faults))
	for i, s := range in.faults {
		all[i] = s.Fault
	}
	return all
}

// Has reports whether there are faults of one of the kinds.
func (in *Injector) Has(of func(Kind) bool) bool {
	return slices.ContainsFunc(in.faults, func(s *state) bool { return of(s.Kind) })
}

// QP is a queue pair that something belongs to; the zero QP: none.
type QP struct {
	Num     uint32
	Ordinal uint64
}

func (f *Fault) ofQP(q QP) bool {
	return (f.QPN == 0 || f.QPN == q.Num) && (f.Ordinal == 0 || f.Ordinal == q.Ordinal)
}

// strikes counts a packet, call or other event that a fault selects, and reports whether the fault strikes it, which
// it does only if it may. n is its number.
func (s *state) strikes(now time.Duration, may bool) (n uint64, yes bool) {
	s.seen++
	if s.Times > 0 && s.struck >= s.Times {
		return s.seen, false
	}
	for s.next < len(s.Nth) && s.Nth[s.next].Last != 0 && s.Nth[s.next].Last < s.seen {
		s.next++
	}
	// Each has its number drawn, whether it may be struck or not: later ones do not depend on that.
	hit := s.Chance == 0 || s.rand.Float64() < s.Chance
	switch {
	case !may, now < s.After, s.Until > 0 && now >= s.Until:
		return s.seen, false
	case s.Nth != nil && (s.next == len(s.Nth) || s.Nth[s.next].First > s.seen):
		return s.seen, false
	case s.Every > 0 && s.seen%s.Every != 0:
		return s.seen, false
	}
	if hit {
		s.struck++
	}
	return s.seen, hit
}

// strike has the faults that select something count it. The faults that strike it are passed to do, one after the
// other, and logged with the text that describe returns. Once do returns false no others strike, and count it all the
// same.
func (in *Injector) strike(now time.Duration, qp QP, describe func() string, selects func(*state) bool,
	do func(*state) (more bool)) {
	in.mu.Lock()
	defer in.mu.Unlock()
	more := true
	for _, s := range in.faults {
		if !selects(s) {
			continue
		}
		if n, yes := s.strikes(now, more); yes {
			more = do(s)
			in.note(s, n, now, qp, describe)
		}
	}
}

// note counts a strike, and logs it at the object with the number n. The line repeats it in another run: a queue pair
// has another number then.
func (in *Injector) note(s *state, n uint64, now time.Duration, qp QP, describe func() string) {
	in.struck++
	in.counted[s.Kind]++
	if qp.Ordinal != 0 { // there is such a queue pair
		c := in.of[qp.Num]
		if c == nil {
			c = new([kinds]uint64)
			in.of[qp.Num] = c
		}
		c[s.Kind]++
	}
	repeats := s.always() || s.Kind.lasts()
	if repeats {
		if s.begun {
			return
		}
		s.begun = true
	}
	f := s.Fault
	f.Device = in.device
	if f.QPN != 0 && qp.Ordinal != 0 {
		f.QPN, f.Ordinal = 0, qp.Ordinal
	}
	if !repeats {
		f.Chance, f.Every, f.Times, f.After, f.Until = 0, 0, 0, 0, 0
		f.Nth = []Span{{n, n}}
	}
	in.log.line(f.String(), fmt.Sprintf("%d at %v: %s", in.struck, now.Round(time.Microsecond), describe()))
}

// Packet is a packet on its way.
type Packet struct {
	Way     Way // Sent or Received
	Peer    netip.Addr
	LID     uint16
	QP      QP     // of this side
	Message string // one of Messages
	Size    int    // bytes; 0: unknown
	Name    string // for the log
}

// describe says which packet it is.
func (p *Packet) describe() string {
	peer := "LID " + fmt.Sprint(p.LID)
	if p.Peer.IsValid() {
		peer = p.Peer.String()
	}
	size := ""
	if p.Size > 0 {
		size = fmt.Sprintf(" %d bytes,", p.Size)
	}
	return fmt.Sprintf("%s,%s qp %s, %s %s", p.Name, size, p.QP.describe(), p.Way.toward(), peer)
}

// toward is the word before a peer's address.
func (w Way) toward() string {
	if w == Received {
		return "from"
	}
	return "to"
}

func (q QP) describe() string {
	if q.Ordinal == 0 {
		return fmt.Sprintf("%#x", q.Num)
	}
	return fmt.Sprintf("%#x (%s)", q.Num, ordinal(q.Ordinal))
}

// isCM reports whether a sort of packet is a datagram of connection managers.
func isCM(m string) bool { return m != "" && m[0] >= 'A' && m[0] <= 'Z' }

func (f *Fault) selects(p *Packet) bool {
	switch {
	case f.Way != Both && f.Way != p.Way:
		return false
	case f.Peer.IsValid() && !f.Peer.Contains(p.Peer), f.LID != 0 && f.LID != p.LID:
		return false
	case f.Message != "" && f.Message != p.Message && !(f.Message == "mad" && isCM(p.Message)):
		return false
	}
	return f.ofQP(p.QP)
}

// Verdict is the decision about a packet.
type Verdict struct {
	Drop    bool
	Corrupt bool
	Copies  int           // besides the packet itself
	Delay   time.Duration // of the packet
	By      Kinds         // the faults that have struck it
}

// Passes reports whether nothing happens to the packet.
func (v *Verdict) Passes() bool { return v.By == 0 && !v.Drop }

// overhead is the length of a packet's headers below UDP on the wire, in bytes: Ethernet and IPv4.
const overhead = 14 + 4 + 20

// Packet decides about a packet.
func (in *Injector) Packet(p *Packet, now time.Duration) (v Verdict) {
	in.strike(now, p.QP, p.describe, func(s *state) bool {
		return s.Kind.OfPackets() && s.selects(p)
	}, func(s *state) bool {
		s.change(&v, p, now)
		return !v.Drop
	})
	return v
}

// change has a fault change the verdict on a packet that it strikes.
func (s *state) change(v *Verdict, p *Packet, now time.Duration) {
	v.By.add(s.Kind)
	switch s.Kind {
	case Loss, Partition, Down:
		v.Drop = true
	case Duplicate:
		v.Copies++
	case Corrupt:
		v.Corrupt = true
	case Reorder:
		v.Delay += time.Duration(s.rand.Int64N(int64(s.Delay) + 1))
	case Delay:
		v.Delay += s.Delay
		if s.Jitter > 0 {
			v.Delay += max(-s.Delay, time.Duration(s.rand.Int64N(2*int64(s.Jitter)+1))-s.Jitter)
		}
	case Rate:
		s.free = max(s.free, now) + time.Duration(float64(p.Size+overhead)*8*1e9/float64(s.Bits))
		v.Delay += s.free - now
	}
}

// Silent returns the faults by which nothing of a queue pair passes in a direction, to or from a peer, for a device
// whose network knows no single packets; 0: there is none.
func (in *Injector) Silent(way Way, peer netip.Addr, qp QP, now time.Duration) (by Kinds) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, s := range in.faults {
		if s.Kind != Partition && s.Kind != Down || s.Peer.IsValid() && !s.Peer.Contains(peer) || now < s.After ||
			s.Until > 0 && now >= s.Until || !s.ofQP(qp) || s.Way != Both && s.Way != way {
			continue
		}
		if s.struck == 0 {
			if s.Nth != nil { // Packet counts
				continue
			}
			s.seen++
			s.struck++
			in.note(s, 1, now, qp, func() string { return "streams with " + peer.String() })
		}
		by.add(s.Kind)
	}
	return by
}

// NotReady decides whether a message finds no receive.
func (in *Injector) NotReady(p *Packet, now time.Duration) (refused bool) {
	in.strike(now, p.QP, p.describe, func(s *state) bool { return s.Kind == RNR && s.selects(p) }, func(*state) bool {
		refused = true
		return false
	})
	return refused
}

// Call decides whether a call fails, and returns its error.
func (in *Injector) Call(call string, qp QP, now time.Duration) (err error) {
	describe := func() string {
		if qp.Num == 0 {
			return call
		}
		return call + " of qp " + qp.describe()
	}
	in.strike(now, qp, describe, func(s *state) bool {
		return s.Kind == Fail && s.Call == call && s.ofQP(qp)
	}, func(s *state) bool {
		err = &verbs.OpError{Op: call, Err: injectedError(call, s.Errno),
			Detail: "injected by the fault `" + s.String() + "`"}
		return false
	})
	return err
}

// injected is an error that a fault has made.
type injected struct {
	name string
	errs []error
}

func (e *injected) Error() string   { return e.name }
func (e *injected) Unwrap() []error { return e.errs }

func injectedError(call, name string) error {
	for _, e := range errnos {
		if e.name != name {
			continue
		}
		is := e.is
		if is == verbs.ErrNoMemory && strings.HasPrefix(call, "post_") {
			is = verbs.ErrQueueFull
		}
		if is == nil {
			return e.errno
		}
		return &injected{is.Error(), []error{e.errno, is}}
	}
	return verbs.ErrInvalid
}

// Completion decides which status a work request completes with; StatusSuccess: its own. It is asked as a send work
// request is posted, and as a receive completes.
func (in *Injector) Completion(op string, qp QP, now time.Duration) (status verbs.Status) {
	describe := func() string { return op + " of qp " + qp.describe() }
	in.strike(now, qp, describe, func(s *state) bool {
		return s.Kind == Complete && (s.Op == op || s.Op == "any") && s.ofQP(qp)
	}, func(s *state) bool {
		status = s.Status
		return false
	})
	return status
}

// Lateness decides by how much a completion comes later.
func (in *Injector) Lateness(op string, qp QP, now time.Duration) (d time.Duration) {
	describe := func() string { return "completion of " + op + " of qp " + qp.describe() }
	in.strike(now, qp, describe, func(s *state) bool { return s.Kind == Late && s.ofQP(qp) }, func(s *state) bool {
		d += s.Delay
		return true
	})
	return d
}

// Rejects decides whether a request for a connection is rejected, and why.
func (in *Injector) Rejects(way Way, peer netip.Addr, now time.Duration) (reason uint16, yes bool) {
	describe := func() string { return "a request " + way.toward() + " " + peer.String() }
	selects := func(s *state) bool {
		return s.Kind == Reject && (s.Way == Both || s.Way == way) && (!s.Peer.IsValid() || s.Peer.Contains(peer))
	}
	in.strike(now, QP{}, describe, selects, func(s *state) bool {
		reason, yes = s.Reason, true
		return false
	})
	return reason, yes
}

// Posted returns the events that a work request raises as it is posted.
func (in *Injector) Posted(qp QP, now time.Duration) (events []Fault) {
	describe := func() string { return "a work request of qp " + qp.describe() }
	in.strike(now, qp, describe, func(s *state) bool {
		return s.Kind.events() && !s.always() && s.ofQP(qp)
	}, func(s *state) bool {
		events = append(events, s.Fault)
		return true
	})
	return events
}

// Moment is a time at which the device does something by itself: it raises an event, or its port goes down or up.
type Moment struct {
	At    time.Duration
	fault *state
	ends  bool
}

// Moments returns all of them.
func (in *Injector) Moments() (all []Moment) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, s := range in.faults {
		if s.Kind != Down && (!s.Kind.events() || !s.always()) {
			continue
		}
		all = append(all, Moment{At: s.After, fault: s})
		if s.Kind == Down && s.Until > 0 {
			all = append(all, Moment{At: s.Until, fault: s, ends: true})
		}
	}
	return all
}

// Event returns the event to raise at a moment. The fault's queue pair is that of the event.
func (m *Moment) Event() (e verbs.EventType, of Fault) {
	switch {
	case m.fault.Kind.events():
		return m.fault.Event, m.fault.Fault
	case m.ends:
		return verbs.EventPortActive, m.fault.Fault
	}
	return verbs.EventPortError, m.fault.Fault
}

// Came tells that a moment has come, and whether there was something to raise its event on.
func (in *Injector) Came(m Moment, now time.Duration, raised bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	s := m.fault
	switch {
	case m.ends:
	case !raised:
		s.missed = 1
	case s.Kind.events():
		s.seen++
		s.struck++
		in.note(s, 1, now, QP{}, func() string { return "its time has come" })
	default:
		s.struck++
		in.note(s, 1, now, QP{}, func() string { return "the port goes down" })
	}
}

// Down reports whether the port is down.
func (in *Injector) Down(now time.Duration) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.ContainsFunc(in.faults, func(s *state) bool {
		return s.Kind == Down && now >= s.After && (s.Until == 0 || now < s.Until)
	})
}

// Count is how often faults of one kind have struck.
type Count struct {
	QPN    uint32 // of a queue pair; 0: of the device, with all queue pairs
	Kind   string
	Struck uint64
}

// Counts returns how often faults have struck, by kind: first for the device, then for each queue pair that there is.
func (in *Injector) Counts() (all []Count) {
	in.mu.Lock()
	defer in.mu.Unlock()
	add := func(qpn uint32, counted *[kinds]uint64) {
		for k, n := range counted {
			if n > 0 {
				all = append(all, Count{qpn, kindNames[k], n})
			}
		}
	}
	add(0, &in.counted)
	for _, qpn := range slices.Sorted(maps.Keys(in.of)) {
		add(qpn, in.of[qpn])
	}
	return all
}

// Forget forgets the counts of a queue pair: it is destroyed.
func (in *Injector) Forget(qpn uint32) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.of, qpn)
}

// Target is a device that takes faults.
type Target interface {
	// SetFaults replaces the faults; nil: there are none any more. ErrNotSupported means that one of them makes no
	// sense with the device.
	SetFaults(in *Injector) error
	// Faults returns them; nil: there are none.
	Faults() *Injector
	// FailCall returns the error of a call that is to fail, and is not the device's; nil: it is to go on.
	FailCall(call string) error
	// Rejects reports whether a request for a connection is to be rejected, and why.
	Rejects(way Way, peer netip.Addr) (reason uint16, yes bool)
}

// Set replaces the faults of a device, of this name. A set without faults ends them. A nil log stands for the one that
// the device has, or else for that of the process.
func (s *Set) Set(dev Target, name string, log *Log) (err error) {
	if !s.Seeded {
		s.Seed, s.Seeded = rand.Uint64()>>1, true
	}
	before := dev.Faults()
	if log == nil && before != nil {
		log = before.log
	}
	if log == nil {
		if log, err = ProcessLog(); err != nil {
			return err
		}
	}
	return dev.SetFaults(NewInjector(s, name, log))
}

// maxPast is how many faults that have ended an injector remembers.
const maxPast = 100

// Carry takes over the counts of an injector that this one replaces, and the results of its faults that have struck;
// nil: there is none.
func (in *Injector) Carry(from *Injector) {
	if from == nil {
		return
	}
	for _, r := range from.Results() {
		if r.Struck > 0 {
			r.Ended = true
			in.remember(&r)
		}
	}
	from.mu.Lock()
	defer from.mu.Unlock()
	in.struck, in.counted = from.struck, from.counted
	for qpn, counted := range from.of {
		c := *counted
		in.of[qpn] = &c
	}
}

// remember keeps the result of a fault that has ended, which may have been there before.
func (in *Injector) remember(r *Result) {
	i := slices.IndexFunc(in.past, func(p Result) bool { return p.Fault == r.Fault })
	if i >= 0 {
		in.past[i].Struck += r.Struck
		in.past[i].Selected += r.Selected
		return
	}
	if len(in.past) == maxPast {
		in.past = slices.Delete(in.past, 0, 1)
	}
	in.past = append(in.past, *r)
}

// Result says how often a fault has struck.
type Result struct {
	Fault    string `json:"fault"` // as Parse takes it
	Struck   uint64 `json:"struck"`
	Selected uint64 `json:"selected"`       // of these it was
	Unit     string `json:"unit,omitempty"` // of both, such as packets; empty: the fault comes by time
	// Missed is the object that was not there as the fault's time came: such as a queue pair; empty: there was one.
	Missed string `json:"missed,omitempty"`
	Ended  bool   `json:"ended,omitempty"` // it was replaced, or cleared
}

// String returns the result as a line for people.
func (r *Result) String() string {
	switch {
	case r.Ended && r.Unit == "":
		return r.Fault + ": struck, and has ended"
	case r.Ended:
		return fmt.Sprintf("%s: struck %d of %d %s, and has ended", r.Fault, r.Struck, r.Selected, r.Unit)
	case r.Unit == "" && r.Struck > 0:
		return r.Fault + ": struck"
	case r.Missed != "":
		return r.Fault + ": never struck: there was no " + r.Missed + " as its time came"
	case r.Unit == "":
		return r.Fault + ": never struck: its time has not come"
	case r.Struck > 0:
		return fmt.Sprintf("%s: struck %d of %d %s", r.Fault, r.Struck, r.Selected, r.Unit)
	case r.Selected == 0:
		return fmt.Sprintf("%s: never struck: there were no %s that it selects", r.Fault, r.Unit)
	}
	return fmt.Sprintf("%s: never struck: none of %d %s", r.Fault, r.Selected, r.Unit)
}

// Results returns how often each fault has struck, and those that have ended and had struck.
func (in *Injector) Results() []Result {
	in.mu.Lock()
	defer in.mu.Unlock()
	all := make([]Result, 0, len(in.faults))
	for _, s := range in.faults {
		r := Result{Fault: s.Fault.String(), Struck: s.struck, Selected: s.seen}
		if s.Kind != Down && !(s.Kind.events() && s.always()) {
			r.Unit = s.unit()
		}
		if s.missed != 0 {
			r.Missed = map[EventOf]string{
				OfQP: "queue pair", OfCQ: "completion queue", OfSRQ: "shared receive queue",
			}[Owner(s.Event)]
		}
		all = append(all, r)
	}
	return append(all, in.past...)
}

// Summary says in a line for each fault how often it has struck.
func (in *Injector) Summary() string { return summary(in.Results()) }

func summary(results []Result) string {
	var b strings.Builder
	for i := range results {
		fmt.Fprintln(&b, results[i].String())
	}
	return b.String()
}

// live are the injectors that have begun and not finished.
var (
	liveLock sync.Mutex
	live     = map[*Injector]bool{}
)

// Begin notes that the injector's faults strike from now on.
func (in *Injector) Begin() {
	if in.random() {
		in.log.seed(in.seed)
	}
	in.mu.Lock()
	in.keep()
	in.mu.Unlock()
	liveLock.Lock()
	defer liveLock.Unlock()
	live[in] = true
	met[in.device] = true
}

// FinishAll logs the summaries of all injectors, and the faults that no device has had: the process ends.
func FinishAll() {
	liveLock.Lock()
	var all []*Injector
	for in := range live {
		all = append(all, in)
	}
	liveLock.Unlock()
	slices.SortFunc(all, func(a, b *Injector) int { return strings.Compare(a.device, b.device) })
	for _, in := range all {
		in.Finish()
	}
	finishUnmet()
}

// Finish logs the summary, once.
func (in *Injector) Finish() { in.finish(in.Results()) }

// End is Finish of an injector that is replaced: those of its faults that have ended before are told by its successor.
func (in *Injector) End() {
	in.finish(slices.DeleteFunc(in.Results(), func(r Result) bool { return r.Ended }))
}

func (in *Injector) finish(results []Result) {
	liveLock.Lock()
	begun := live[in]
	delete(live, in)
	liveLock.Unlock()
	if !begun {
		return
	}
	in.logSummary(results)
	if in.record != nil {
		in.record.finished = 1
	}
}

func (in *Injector) logSummary(results []Result) {
	if s := summary(results); s != "" {
		in.log.comment("faults of " + in.device + ":\n" + s)
	}
}
