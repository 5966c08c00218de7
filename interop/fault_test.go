// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestRemoteAccess requests accesses that the responder does not allow: both queue pairs end
// in the error state, and the responder's memory stays as it was.
func TestRemoteAccess(t *testing.T) {
	const size = 5000
	for _, c := range []struct {
		name   string
		op     verbs.SendOp
		access verbs.Access // of the region
		off    uint64
		key    verbs.Key // flips these bits of the region's
	}{
		{"write with a wrong rkey", verbs.OpWrite, verbs.LocalWrite | verbs.RemoteWrite, 0, 0x5500},
		{"read with a wrong rkey", verbs.OpRead, verbs.LocalWrite | verbs.RemoteRead, 0, 0x5500},
		{"write where only reading is allowed", verbs.OpWrite, verbs.LocalWrite | verbs.RemoteRead, 0, 0},
		{"read where only writing is allowed", verbs.OpRead, verbs.LocalWrite | verbs.RemoteWrite, 0, 0},
		{"write over the end", verbs.OpWrite, verbs.LocalWrite | verbs.RemoteWrite, 1, 0},
		{"read over the end", verbs.OpRead, verbs.LocalWrite | verbs.RemoteRead, 1, 0},
		{"atomic where only writing is allowed", verbs.OpFetchAdd, verbs.LocalWrite | verbs.RemoteWrite, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachPair(t, func(t *testing.T, p pair) {
				a, b := p.queues(verbs.RC, verbs.ConnectOptions{})
				mine, theirs := p.a.region(size, verbs.LocalWrite), p.b.region(size, c.access)
				mine.fill(1, 0, size)
				theirs.fill(2, 0, size)
				b.recv(verbs.RecvWR{ID: 1})
				n := size
				if c.op == verbs.OpFetchAdd {
					n = 8
				}
				remote := theirs.remote().At(c.off)
				remote.Key ^= c.key
				a.send(
					work{SendWR: verbs.SendWR{ID: 2, Op: c.op, Flags: verbs.Signaled, SGL: []verbs.SGE{mine.sge(0, n)},
						Remote: remote, Add: 1}},
					work{SendWR: verbs.SendWR{ID: 3, Op: verbs.OpSend, Flags: verbs.Signaled}})
				wcs := a.wait(2)
				wantStatus(t, wcs[0], 2, verbs.StatusRemoteAccessError)
				wantStatus(t, wcs[1], 3, verbs.StatusWRFlushError)
				wantStatus(t, b.wait(1)[0], 1, verbs.StatusWRFlushError)
				if a.state() != verbs.StateError || b.state() != verbs.StateError {
					t.Errorf("states %v and %v, want ERR", a.state(), b.state())
				}
				if at := theirs.differs(2, 0, size); at >= 0 {
					t.Errorf("byte %d of the responder's memory changed", at)
				}
			})
		})
	}
}

// TestReceiveTooShort sends more than the receive has room for. The specification makes
// that an invalid request and a length error (IBTA 9.9.6.3); rxe answers with the class
// of errors of the responder's own work queue.
func TestReceiveTooShort(t *testing.T) {
	eachPair(t, func(t *testing.T, p pair) {
		a, b := p.queues(verbs.RC, verbs.ConnectOptions{})
		from, to := p.a.region(9000, verbs.LocalWrite), p.b.region(9000, verbs.LocalWrite)
		b.recv(verbs.RecvWR{ID: 1, SGL: []verbs.SGE{to.sge(0, 8999)}})
		a.send(work{SendWR: verbs.SendWR{ID: 2, Op: verbs.OpSend, Flags: verbs.Signaled,
			SGL: []verbs.SGE{from.sge(0, 9000)}}})
		requester, responder := verbs.StatusRemoteInvalidRequestError, verbs.StatusLocalLengthError
		if isKernel(p.b) {
			requester, responder = verbs.StatusRemoteOperationError, verbs.StatusLocalQPOperationError
		}
		wantStatus(t, a.wait(1)[0], 2, requester)
		wantStatus(t, b.wait(1)[0], 1, responder)
	})
}

// TestNoReceive sends to a responder that has no receive, and never gets one.
func TestNoReceive(t *testing.T) {
	eachPair(t, func(t *testing.T, p pair) {
		a, b := p.queues(verbs.RC, verbs.ConnectOptions{RNRRetry: 2})
		from := p.a.region(100, verbs.LocalWrite)
		a.send(work{SendWR: verbs.SendWR{ID: 2, Op: verbs.OpSend, Flags: verbs.Signaled,
			SGL: []verbs.SGE{from.sge(0, 100)}}})
		wantStatus(t, a.wait(1)[0], 2, verbs.StatusRNRRetryExceeded)
		if a.state() != verbs.StateError || b.state() != verbs.StateRTS {
			t.Errorf("states %v and %v, want ERR and RTS", a.state(), b.state())
		}
	})
}

// TestLateReceive sends to a responder whose receives come while the requester retries.
func TestLateReceive(t *testing.T) {
	eachPair(t, func(t *testing.T, p pair) {
		a, b := p.queues(verbs.RC, verbs.ConnectOptions{RNRRetry: 7, MinRNRTimer: 19}) // 7.68 ms
		from, to := p.a.region(30_000, verbs.LocalWrite), p.b.region(30_000+guard, verbs.LocalWrite)
		from.fill(4, 0, 30_000)
		for id := range uint64(3) {
			a.send(work{SendWR: verbs.SendWR{ID: id, Op: verbs.OpSend, Flags: verbs.Signaled,
				SGL: []verbs.SGE{from.sge(0, 30_000)}}})
		}
		time.Sleep(50 * time.Millisecond)
		for id := range uint64(3) {
			b.recv(verbs.RecvWR{ID: id, SGL: []verbs.SGE{to.sge(0, 30_000)}})
			want(t, a.wait(1)[0], id, verbs.WCSend)
			want(t, b.wait(1)[0], id, verbs.WCRecv)
		}
		wantPattern(t, to, 4, 0, 30_000)
	})
}

// TestNobodyThere sends to a queue pair that does not exist.
func TestNobodyThere(t *testing.T) {
	eachPair(t, func(t *testing.T, p pair) {
		a, b := p.a.queue(queueInit{typ: verbs.RC}), p.b.queue(queueInit{typ: verbs.RC})
		nobody := b.endpoint()
		nobody.QPN ^= 0x800000
		a.connect(nobody, verbs.ConnectOptions{MTU: p.mtu, Timeout: 12, RetryCount: 2})
		a.send(
			work{SendWR: verbs.SendWR{ID: 1, Op: verbs.OpSend, Flags: verbs.Signaled}},
			work{SendWR: verbs.SendWR{ID: 2, Op: verbs.OpSend, Flags: verbs.Signaled}})
		wcs := a.wait(2)
		wantStatus(t, wcs[0], 1, verbs.StatusRetryExceeded)
		wantStatus(t, wcs[1], 2, verbs.StatusWRFlushError)
	})
}
