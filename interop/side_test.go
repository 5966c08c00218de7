// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// A side is one end of a test: a device on which the test makes objects. Objects that cannot be made, and work requests
// that cannot be posted, fail the test at once; the peer's reaction shows in completions. Everything of a side goes
// away when its test ends.
type side interface {
	name() string
	region(size int, access verbs.Access) region
	window(verbs.MWType) window
	sharedQueue() recvQueue
	queue(queueInit) queue
}

// A region is registered memory of a side, zero at first.
type region interface {
	remote() verbs.Remote
	sge(off, n int) verbs.SGE
	fill(seed byte, off, n int)        // with the pattern
	differs(seed byte, off, n int) int // where the range first differs from the pattern, or -1
	bytes(off, n int) []byte           // a copy
	set(off int, b []byte)
}

// A window is a memory window of a side: *guestWindow or *deviceWindow.
type window any

// A recvQueue takes receives: a queue pair or a shared receive queue.
type recvQueue interface {
	recv(...verbs.RecvWR)
}

// queueInit is the description of a queue pair to make.
type queueInit struct {
	typ    verbs.QPType
	srq    recvQueue
	access verbs.Access // the peer's rights
	qkey   verbs.QKey   // UD
}

// A queue is a queue pair with one completion queue for both of its directions.
type queue interface {
	recvQueue
	endpoint() verbs.Endpoint
	connect(remote verbs.Endpoint, opt verbs.ConnectOptions) // UD: remote and opt are ignored
	send(...work)
	// bind binds a window to n bytes of a region, waits for that, and returns the window's key.
	bind(id uint64, w window, r region, off, n int, access verbs.Access) verbs.Key
	wait(n int) []verbs.WC // exactly n completions, in their order
	state() verbs.QPState
}

// work is a work request for either side. Its SendWR has no AH and no Bind: to stands
// for the former, and the method bind for the latter.
type work struct {
	verbs.SendWR
	to verbs.GID // UD: the receiver
}

// pattern is the content that fill writes. Byte i is seed + 7 i + 13 ⌊i/2⁸⌋ + 29 ⌊i/2¹⁶⌋, modulo
// 256: it repeats after 16 MiB and no sooner, so that a piece in the wrong place shows.
func pattern(seed byte, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = seed + byte(i*7+(i>>8)*13+(i>>16)*29)
	}
	return b
}

// firstDifference returns where b differs from the pattern, or -1.
func firstDifference(b []byte, seed byte) int {
	for i, want := range pattern(seed, len(b)) {
		if b[i] != want {
			return i
		}
	}
	return -1
}

// link is a way to reach the peer: which addresses, and how large packets.
type link struct {
	name string
	ipv6 bool
	mtu  verbs.MTU
}

var links = []link{
	{"IPv4/MTU1024", false, verbs.MTU1024},
	{"IPv4/MTU4096", false, verbs.MTU4096},
	{"IPv6/MTU1024", true, verbs.MTU1024},
	{"IPv6/MTU4096", true, verbs.MTU4096},
}

// roles are the pairs of requester and responder. The guest against itself comes first: it
// shows that the bench works, and the kernel's behaviour.
var roles = []struct {
	name                 string
	requester, responder func(testing.TB, link) side
}{
	{"rxe→rxe", openGuest, openGuest},
	{"ramjet→rxe", openRamjet, openGuest},
	{"rxe→ramjet", openGuest, openRamjet},
}

// pair is a test's two sides and the link between them.
type pair struct {
	link
	a, b side // requester and responder
}

// eachPair runs test for every way to hand out the roles, over every link.
func eachPair(t *testing.T, test func(t *testing.T, p pair)) {
	for i := range roles {
		eachLink(t, i, test)
	}
}

// eachLinkedPair leaves out the guest against itself: rxe hands packets to itself straight
// over, so that none passes the link.
func eachLinkedPair(t *testing.T, test func(t *testing.T, p pair)) {
	for i := 1; i < len(roles); i++ {
		eachLink(t, i, test)
	}
}

func eachLink(t *testing.T, i int, test func(t *testing.T, p pair)) {
	for _, l := range links {
		t.Run(roles[i].name+"/"+l.name, func(t *testing.T) {
			test(t, pair{l, roles[i].requester(t, l), roles[i].responder(t, l)})
		})
	}
}

// isKernel reports whether s is rxe, where a test has to expect the kernel's behaviour although
// the specification has it otherwise. README.md lists these places.
func isKernel(s side) bool { return s.name() == "rxe" }

// everything is the set of rights of a responder's queue pair when a test is not about access.
const everything = verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic | verbs.FlushGlobal

// queues makes a connected pair of queue pairs.
func (p pair) queues(typ verbs.QPType, opt verbs.ConnectOptions) (a, b queue) {
	a, b = p.a.queue(queueInit{typ: typ, access: everything}), p.b.queue(queueInit{typ: typ, access: everything})
	p.connect(a, b, opt)
	return a, b
}

func (p pair) connect(a, b queue, opt verbs.ConnectOptions) {
	opt.MTU = p.mtu
	b.connect(a.endpoint(), opt)
	a.connect(b.endpoint(), opt)
}

// want fails the test unless wc is a success of op.
func want(t testing.TB, wc verbs.WC, id uint64, op verbs.WCOp) {
	t.Helper()
	if wc.Status != verbs.StatusSuccess || wc.Op != op || wc.ID != id {
		t.Fatalf("completion %d %v: %v, want %d %v: success", wc.ID, wc.Op, wc.Status, id, op)
	}
}

// wantStatus fails the test unless wc is of work request id and has this status.
func wantStatus(t testing.TB, wc verbs.WC, id uint64, status verbs.Status) {
	t.Helper()
	if wc.Status != status || wc.ID != id {
		t.Fatalf("completion %d: %v, want %d: %v", wc.ID, wc.Status, id, status)
	}
}

// wantPattern fails the test unless the n bytes at off hold the pattern, and the 16 bytes
// after them nothing.
func wantPattern(t testing.TB, r region, seed byte, off, n int) {
	t.Helper()
	if i := r.differs(seed, off, n); i >= 0 {
		t.Fatalf("byte %d of %d differs", i, n)
	}
	for i, b := range r.bytes(off+n, 16) {
		if b != 0 {
			t.Fatalf("byte %d after the end was written", i)
		}
	}
}
