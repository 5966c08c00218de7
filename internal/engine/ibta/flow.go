// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/engine/congestion"
)

// Flow counts the bytes that all queue pairs of a device have in flight to one host: requests by bytes that are
// not acknowledged, READs by bytes that have not come back. Its congestion control decides how much that may be, and
// when more may leave. Queue pairs that have to wait for that do so in line.
type Flow struct {
	regulator
	max      int // bytes: as many as the socket buffers allow
	inflight int
	reads    int // bytes of READ responses asked for
	lines    [numLines]queue.Ring[*member]
	timer    *member    // has the timer for the next send of the members in line; nil: Next finds one
	users    int        // queue pairs connected to that host
	heardAt  clock.Time // when something was last acknowledged or answered
}

// member is a queue pair's part of a flow. The flow alone changes it.
type member struct {
	qp       *QP
	inflight int        // bytes of requests
	reads    int        // bytes of READ responses asked for
	packet   int        // bytes of a full packet
	quantum  int        // bytes that it may still send before others that wait
	need     int        // bytes that it waits for
	line     line       // where it waits
	waiting  bool       // in line
	own      *regulator // of this queue pair alone; nil: the flow's is its only one
}

// line says for which room a queue pair waits.
type line uint8

const (
	forRequests line = iota // room in the window
	forReads                // room for responses of READs
	numLines
)

// longSend is the cost of the beginning of a long message: its first packets are a short send,
// and a full one follows.
const longSend = 72 << 10

// NewFlow makes a flow to a peer whose socket buffer is believed to hold limit bytes.
func NewFlow(limit int, control congestion.Controller) *Flow {
	return &Flow{regulator: newRegulator(control), max: max(limit, congestion.MinWindow)}
}

// Unused reports whether no queue pair is connected to that host any more.
func (f *Flow) Unused() bool { return f.users == 0 }

// join makes m a member, and leave ends that: the queue pair has another peer, or none.
func (f *Flow) join(*member) { f.users++ }
func (f *Flow) leave(m *member) {
	f.quit(m)
	f.users--
}

// window returns the bytes that m may have in flight, if the others had none.
func (f *Flow) window(m *member) int {
	if m.own != nil {
		return min(f.allows.Window, m.own.allows.Window)
	}
	return f.allows.Window
}

// often returns how many bytes of m may be in flight before it requests an acknowledgement: a full send if others
// wait, else a quarter of the window that they leave. If m's own window is smaller than a full send, it requests
// acknowledgements for each quarter of that, too: with a single one the path would be idle until it arrives.
func (f *Flow) often(m *member) int {
	often := min(f.fullSend(), f.window(m)/4)
	if !f.Waiting() {
		often = max(often, (min(f.window(m), f.max)-(f.inflight-m.inflight))/4)
	}
	return often
}

// fills reports whether there is no room for n more bytes of m.
func (f *Flow) fills(m *member, n int) bool {
	return !f.holds(f.inflight, n) || m.own != nil &&
		(!m.own.holds(m.inflight, n) || m.own.burst+n > m.own.allows.Burst)
}

// exceedsQuantum reports whether others wait and n more bytes are beyond m's quantum.
func (f *Flow) exceedsQuantum(m *member, n int) bool { return f.Waiting() && m.quantum < n }

// readChunk limits the bytes that one READ request asks for: there is no other way to slow a
// responder down.
func (f *Flow) readChunk() int { return max(f.allows.Window/2, congestion.MinWindow) }

// fits reports whether n more bytes of a kind may leave now.
func (f *Flow) fits(now clock.Time, l line, n int) bool {
	if l == forReads {
		return !f.early(now, 0) && f.holds(f.reads, n)
	}
	return !f.early(now, n) && f.holds(f.inflight, n)
}

// ownFits reports whether m's own congestion control allows n more bytes.
func (m *member) ownFits(now clock.Time, l line, n int) bool {
	switch g := m.own; {
	case g == nil:
		return true
	case l == forReads:
		return !g.early(now, 0) && g.holds(m.reads, n)
	default:
		return !g.early(now, n) && g.holds(m.inflight, n)
	}
}

// fullSend is the room that a long message waits for: the window is not handed out in pieces too
// small for a send.
func (f *Flow) fullSend() int { return min(longSend, f.allows.Window/4) }

// fullQuantum returns how many bytes m may send before others that wait (deficit round robin).
func (f *Flow) fullQuantum(m *member) int { return max(f.fullSend(), m.packet) }

// inQuantum reports whether need more bytes are within m's quantum, and there is room for them. A new
// send is worth a quarter of a quantum. If no other queue pair waits, a send is not cut short. sending says that the
// present send has packets already.
func (f *Flow) inQuantum(now clock.Time, m *member, l line, need int, sending bool) bool {
	if sending && f.lines[l].Len() == 0 {
		return f.fits(now, l, need)
	}
	enough := m.quantum >= need && (sending || m.quantum >= f.fullSend()/4)
	if l == forReads {
		enough = m.quantum > 0 // the requested data does not leave from here
	}
	return enough && f.fits(now, l, need)
}

// begin gives m a quantum if it is first in line, and there is room for need bytes.
func (f *Flow) begin(now clock.Time, m *member, l line, need int) bool {
	if !f.first(m, l) || !f.fits(now, l, need) {
		return false
	}
	f.forget(m)
	m.quantum = f.fullQuantum(m)
	return true
}

// endQuantum takes the rest of m's quantum away.
func (f *Flow) endQuantum(m *member) { m.quantum = 0 }

// take takes room for n bytes of requests, which join m's present send.
func (f *Flow) take(m *member, n int) {
	m.inflight += n
	f.inflight += n
	f.burst += n
	m.quantum -= n
	if m.own != nil {
		m.own.burst += n
	}
}

// takeReads takes room for n bytes of responses that m asks for.
func (f *Flow) takeReads(m *member, n int) {
	m.reads += n
	f.reads += n
}

// responds notes n bytes of responses to READs, which join m's present send.
func (f *Flow) responds(m *member, n int) { m.regulator().burst += n }

// regulator returns the queue pair's own regulator, or else the flow's.
func (m *member) regulator() *regulator {
	if m.own != nil {
		return m.own
	}
	return &m.qp.av.Flow.regulator
}

// ask asks for new verdicts.
func (f *Flow) ask(now clock.Time, m *member) {
	f.regulator.ask(now)
	f.schedule(now, f.timer)
	if m.own != nil {
		m.own.ask(now)
	}
}

// schedule gives m the timer for the members in line.
func (f *Flow) schedule(now clock.Time, m *member) {
	if f.timer != nil {
		f.timer.qp.timers.stop(timerLine)
	}
	if f.timer = m; m != nil && f.allows.Next > now && f.Waiting() {
		m.qp.timers.set(timerLine, f.allows.Next)
	}
}

// sent ends a send of m.
func (f *Flow) sent(now clock.Time, m *member) {
	f.regulator.sent(now)
	f.schedule(now, m)
	if m.own != nil {
		m.own.sent(now)
	}
}

// responded ends a send of responses to READs.
func (f *Flow) responded(now clock.Time, m *member) {
	if m.own != nil {
		m.own.sent(now)
		return
	}
	f.regulator.sent(now)
	f.schedule(now, f.timer)
}

// acked gives the room of n bytes of m's requests back; ask follows. After going back, packets that are not counted
// can be acknowledged.
func (f *Flow) acked(now clock.Time, m *member, n int) {
	n = min(n, m.inflight)
	m.inflight -= n
	f.inflight -= n
	f.arrived(now, m, n)
}

// responseArrived gives the room of n bytes of READ responses back; ask follows.
func (f *Flow) responseArrived(now clock.Time, m *member, n int) {
	m.reads -= n
	f.reads -= n
	f.arrived(now, m, n)
}

func (f *Flow) arrived(now clock.Time, m *member, n int) {
	f.heardAt = now
	f.control.Arrived(now, n)
	if m.own != nil {
		m.own.control.Arrived(now, n)
	}
}

func (f *Flow) lost(now clock.Time, m *member) {
	f.control.Lost(now)
	if m.own != nil {
		m.own.control.Lost(now)
	}
	f.ask(now, m)
}

func (f *Flow) silent(now clock.Time, m *member) {
	f.control.Silent(now)
	if m.own != nil {
		m.own.control.Silent(now)
	}
	f.ask(now, m)
}

// notified takes the peer's notification of congestion. A queue pair's own control handles it, if it has one.
func (f *Flow) notified(now clock.Time, m *member) {
	m.regulator().control.Notified(now)
	f.ask(now, m)
}

// marked takes the news that a response to a READ has met congestion.
func (f *Flow) marked(now clock.Time, m *member) {
	m.regulator().control.Marked(now)
	f.ask(now, m)
}

// sample takes a round trip that was measured.
func (f *Flow) sample(now clock.Time, m *member, rtt clock.Time) {
	f.control.RoundTrip(now, rtt)
	if m.own != nil {
		m.own.control.RoundTrip(now, rtt)
	}
	f.ask(now, m)
}

// wait puts m in line until there is room for need bytes.
func (f *Flow) wait(now clock.Time, m *member, l line, need int) {
	if !m.waiting {
		m.waiting, m.line, m.need = true, l, need
		*f.lines[l].PushBack() = m
		f.schedule(now, m)
	}
}

// first reports whether m is the first in line.
func (f *Flow) first(m *member, l line) bool {
	return f.lines[l].Len() == 0 || *f.lines[l].Front() == m
}

// Waiting reports whether queue pairs wait for room.
func (f *Flow) Waiting() bool { return f.lines[forRequests].Len()+f.lines[forReads].Len() > 0 }

// Next returns the queue pair that has waited longest, if its packets may leave now; nil: there is none. It is to be
// drained before Next is called again. If no member has the timer for the line, Next gives it to one and returns its
// queue pair.
func (f *Flow) Next(now clock.Time) *QP {
	for l := range f.lines {
		waiting := &f.lines[l]
		if waiting.Len() == 0 {
			continue
		}
		m := *waiting.Front()
		if f.fits(now, line(l), m.need) {
			*waiting.Front() = nil
			waiting.PopFront()
			m.waiting, m.quantum = false, f.fullQuantum(m)
			return m.qp
		}
		if f.timer == nil && f.allows.Next > now {
			f.schedule(now, m)
			return m.qp
		}
	}
	return nil
}

// release gives back all that m takes of the flow, and its place in line.
func (f *Flow) release(m *member) {
	f.forget(m)
	f.inflight -= m.inflight
	f.reads -= m.reads
	m.inflight, m.reads = 0, 0
}

// quit removes m, which sends no more. Next finds another member for the timer of the line.
func (f *Flow) quit(m *member) {
	f.release(m)
	if f.timer == m {
		f.schedule(0, nil)
	}
}

// forget takes m out of the line.
func (f *Flow) forget(m *member) {
	if m.quantum = 0; !m.waiting {
		return
	}
	m.waiting = false
	waiting := &f.lines[m.line]
	for range waiting.Len() {
		w := *waiting.Front()
		*waiting.Front() = nil
		waiting.PopFront()
		if w != m {
			*waiting.PushBack() = w
		}
	}
}

// InFlight returns the bytes of unacknowledged requests, and of outstanding READs.
func (f *Flow) InFlight() (requests, reads int) { return f.inflight, f.reads }
