// SPDX-License-Identifier: Apache-2.0

package ibta

// Flow bounds what all queue pairs of a device have under way to one host, so that its
// socket buffer is not overrun for long: requests by bytes that are not acknowledged,
// READs by bytes that have not come back. The window halves on a loss and grows again with
// what is acknowledged.
type Flow struct {
	max      int // bytes: what the socket buffers allow
	window   int
	inflight int
	reads    int // bytes of READ responses asked for
	waiting  []*QP
	users    int // queue pairs connected to that host
}

const (
	// minWindow lets one send go out whatever happened before.
	minWindow = 64 << 10
	// packetOverhead is what a packet costs a socket buffer beyond its payload.
	packetOverhead = 192
)

// NewFlow makes a flow for a peer whose socket buffer is believed to hold max bytes.
func NewFlow(limit int) *Flow {
	limit = max(limit, minWindow)
	return &Flow{max: limit, window: limit}
}

// Unused says that no queue pair is connected to that host any more.
func (f *Flow) Unused() bool { return f.users == 0 }

// room says whether n more bytes of requests may leave.
func (f *Flow) room(n int) bool { return f.inflight == 0 || f.inflight+n <= f.window }

// roomForRead says whether a READ of n bytes may be asked for.
func (f *Flow) roomForRead(n int) bool { return f.reads == 0 || f.reads+n <= f.window }

// readChunk is the most bytes that one READ request asks for: there is no other way to
// slow a responder down.
func (f *Flow) readChunk() int { return max(f.window/2, minWindow) }

// acked gives the room of n bytes back and opens the window a little.
func (f *Flow) acked(n int) {
	f.inflight -= n
	if f.window < f.max {
		f.window = min(f.max, f.window+n/8)
	}
}

// lost halves the window.
func (f *Flow) lost() { f.window = max(f.window/2, minWindow) }

// silent closes the window: a peer that does not answer in time may be slow, and more
// copies of the same packets would make it slower.
func (f *Flow) silent() { f.window = minWindow }

// wait notes that q has something to send that the window does not allow.
func (f *Flow) wait(q *QP) {
	if !q.req.waiting {
		q.req.waiting = true
		f.waiting = append(f.waiting, q)
	}
}

// Next returns a queue pair that waited for the window, now that there is room.
func (f *Flow) Next() *QP {
	if len(f.waiting) == 0 || !f.room(minWindow) && !f.roomForRead(minWindow) {
		return nil
	}
	q := f.waiting[0]
	n := copy(f.waiting, f.waiting[1:])
	f.waiting[n] = nil
	f.waiting = f.waiting[:n]
	q.req.waiting = false
	return q
}

// forget takes q out of the flow.
func (f *Flow) forget(q *QP) {
	for i, w := range f.waiting {
		if w == q {
			f.waiting = append(f.waiting[:i], f.waiting[i+1:]...)
			break
		}
	}
	q.req.waiting = false
}

// InFlight returns the bytes of requests that are not acknowledged, and of READs that have
// not come back.
func (f *Flow) InFlight() (requests, reads int) { return f.inflight, f.reads }
