// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"io"
	"net"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/verbs"
	wire "github.com/ramjet-rdma/ramjet/wire/iwarp"
)

var gotTerminate = regexp.MustCompile(`got TERMINATE\. layer (\d+), type (\d+), code (\d+)`)

// wantTerminate fails the test unless the last Terminate that siw got has this cause.
func (g *guest) wantTerminate(t testing.TB, want wire.Cause) {
	t.Helper()
	all := gotTerminate.FindAllStringSubmatch(g.run(commandTimeout, "dmesg").Output, -1)
	if len(all) == 0 {
		t.Fatalf("siw got no Terminate, want %v", want)
	}
	var got wire.Cause
	for i, digits := range all[len(all)-1][1:] {
		n, err := strconv.ParseUint(digits, 10, 8)
		must(t, n, err)
		got |= wire.Cause(n << [...]int{8, 12, 0}[i]) // it takes the error type for the layer
	}
	if got != want {
		t.Errorf("siw got a Terminate with %q (%#04x), want %q", got, uint16(got), want)
	}
}

// counter is one of Ramjet's.
func (m *manager) counter(name string) uint64 { return loopback.Counter(m.t, m.dev, name) }

// TestIWARPTerminate has each side break every rule that a program can break. Ramjet's
// Terminates have the cause of the RFCs, as siw reads it; siw flushes its work requests then, for
// every cause. siw's Terminates make the oldest of Ramjet's work requests that has not completed
// fail with the status that the cause stands for: the READ behind a message that TCP had taken.
// On both sides the connection ends, and with it posted work requests.
func TestIWARPTerminate(t *testing.T) {
	const n = 1000
	for name, c := range map[string]struct {
		op     verbs.SendOp
		access verbs.Access // of the responder's region
		wrong  func(*verbs.SendWR)
		recv   int          // bytes of the responder's receive; -1: there is none
		cause  wire.Cause   // Ramjet's
		status verbs.Status // of Ramjet's work request, from siw's cause
		lost   verbs.Status // of the responder's receive
		siw    string       // why siw is not asked to refuse it
	}{
		"WRITE, steering tag": {op: verbs.OpWrite, access: verbs.RemoteWrite,
			wrong: func(w *verbs.SendWR) { w.Remote.Key ^= 0x5a5a00 },
			cause: wire.TaggedSTag, status: verbs.StatusRemoteAccessError, lost: verbs.StatusWRFlushError},
		"WRITE, access": {op: verbs.OpWrite, access: verbs.RemoteRead, cause: wire.ProtectionAccess,
			status: verbs.StatusRemoteAccessError, lost: verbs.StatusWRFlushError},
		"WRITE, bounds": {op: verbs.OpWrite, access: verbs.RemoteWrite,
			wrong: func(w *verbs.SendWR) { w.Remote.Addr += 1 },
			cause: wire.TaggedBounds, status: verbs.StatusRemoteAccessError, lost: verbs.StatusWRFlushError},
		"READ, steering tag": {op: verbs.OpRead, access: verbs.RemoteRead,
			wrong: func(w *verbs.SendWR) { w.Remote.Key ^= 0x5a5a00 },
			cause: wire.ProtectionSTag, status: verbs.StatusRemoteAccessError, lost: verbs.StatusWRFlushError},
		"READ, access": {op: verbs.OpRead, access: verbs.RemoteWrite, cause: wire.ProtectionAccess,
			lost: verbs.StatusWRFlushError, siw: "siw lets peers read what they may not"},
		"READ, bounds": {op: verbs.OpRead, access: verbs.RemoteRead,
			wrong: func(w *verbs.SendWR) { w.Remote.Addr += 1 },
			cause: wire.ProtectionBounds, status: verbs.StatusRemoteAccessError, lost: verbs.StatusWRFlushError},
		"SEND, too long": {op: verbs.OpSend, recv: n - 1, cause: wire.UntaggedTooLong,
			status: verbs.StatusRNRRetryExceeded, lost: verbs.StatusLocalLengthError},
		"SEND, invalidates what is not there": {op: verbs.OpSendInv, recv: n,
			wrong: func(w *verbs.SendWR) { w.InvKey = 0x77777700 },
			cause: wire.ProtectionInvalidate, lost: verbs.StatusRemoteInvalidRequestError,
			siw: "siw completes the receive in error and goes on"},
	} {
		for i, who := range []string{iwFamilies[0].toGuest(), iwFamilies[0].fromGuest()} {
			t.Run(name+"/"+who, func(t *testing.T) {
				s := openIW(t, iwFamilies[0], nil, i == 0).stream()
				d := s.directions()[i]
				from, to := d[0], d[1]
				ra, rb := from.region(2*n, verbs.LocalWrite|verbs.RemoteRead), to.region(n, verbs.LocalWrite|c.access)
				good := to.region(n, verbs.LocalWrite|verbs.RemoteRead)
				mail := to.region(2*n, verbs.LocalWrite)
				if c.recv >= 0 {
					to.recv(verbs.RecvWR{ID: 7, SGL: []verbs.SGE{mail.sge(0, max(c.recv, 1))}})
				}
				bad := verbs.SendWR{ID: 1, Op: c.op, Flags: verbs.Signaled, SGL: []verbs.SGE{ra.sge(0, n)}}
				if c.op == verbs.OpWrite || c.op == verbs.OpRead {
					bad.Remote = rb.remote()
				}
				if c.wrong != nil {
					c.wrong(&bad)
				}
				if c.siw != "" && to.name == "siw" {
					t.Skip(c.siw)
				}
				if from.name == "siw" {
					from.send(work{SendWR: bad})
					if wc := from.wait(1)[0]; wc.Status == verbs.StatusSuccess && c.op == verbs.OpRead {
						t.Error("siw's READ succeeds")
					}
				} else {
					from.send(work{SendWR: bad},
						work{SendWR: verbs.SendWR{ID: 2, Op: verbs.OpRead, Flags: verbs.Signaled,
							SGL: []verbs.SGE{ra.sge(n, n)}, Remote: good.remote()}})
					wcs := from.wait(2)
					if wcs[0].Status == verbs.StatusSuccess && c.op != verbs.OpRead { // TCP had taken it
						wcs = wcs[1:]
					}
					wantStatus(t, wcs[0], wcs[0].ID, c.status)
					if len(wcs) > 1 {
						wantStatus(t, wcs[1], 2, verbs.StatusWRFlushError)
					}
				}
				s.ended(t)
				var answer struct{ Event string }
				if s.g.call("iw_event", nil, &answer); answer.Event != "DISCONNECTED" {
					t.Errorf("siw's event is %s", answer.Event)
				}
				if to.name == "siw" && c.op == verbs.OpRead { // which leaves that to its program
					s.g.call("qp_modify", args{"qp": s.b.Handle, "state": "ERR"}, nil)
				}
				// the event comes first
				for end := time.Now().Add(waitTimeout); s.b.state() != verbs.StateError; time.Sleep(
					5 * time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("siw's queue pair is in %v", s.b.state())
					}
				}
				wantStatus(t, to.wait(1)[0], 7, c.lost)
				if from.name == "siw" {
					s.g.wantTerminate(t, c.cause)
					if got := s.m.counter("sent_terminates"); got != 1 {
						t.Errorf("%d Terminates sent", got)
					}
				} else if got := s.m.counter("rcvd_terminates"); got != 1 {
					t.Errorf("%d Terminates came", got)
				}
				for i, b := range rb.bytes(0, n) {
					if b != 0 {
						t.Fatalf("byte %d was written", i)
					}
				}
			})
		}
	}
}

// TestIWARPBadStream sends siw segments that no program can make a device send, and reads its
// Terminates: siw answers as Ramjet does (iwarp.TestTerminate).
func TestIWARPBadStream(t *testing.T) {
	seg := func(h wire.Header, payload ...byte) []byte {
		if h.DDP == 0 {
			h.DDP = 1
		}
		h.RDMAP = 1
		return append(h.Append(nil), payload...)
	}
	for name, c := range map[string]struct {
		ulpdu []byte
		crc   uint32 // the defect of its CRC
		want  wire.Cause
	}{
		"CRC": {seg(wire.Header{Tagged: true, Last: true}), 1, wire.MPACRC},
		// 0x0206 with its halves exchanged
		"opcode":      {seg(wire.Header{Last: true, Opcode: 15}), 0, wire.MPAInsufficientIRD},
		"DDP version": {seg(wire.Header{Tagged: true, Last: true, DDP: 2}), 0, wire.TaggedVersion},
		"queue":       {seg(wire.Header{Last: true, Opcode: wire.OpSend, Queue: 7, MSN: 1}, 1), 0, wire.UntaggedQueue},
		"MSN":         {seg(wire.Header{Last: true, Opcode: wire.OpSend, MSN: 2}, 1), 0, wire.UntaggedMSN},
		"MO":          {seg(wire.Header{Last: true, Opcode: wire.OpSend, MSN: 1, MO: 4}, 1), 0, wire.UntaggedMO},
		"no receive":  {seg(wire.Header{Last: true, Opcode: wire.OpSend, MSN: 1}, 1), 0, wire.UntaggedNoBuffer},
	} {
		t.Run(name, func(t *testing.T) {
			g := dialGuest(t, false)
			g.call("use", args{"device": "siw0"}, nil)
			port := 18700 + int(iwPort.Add(1))
			b := &guestQueue{g: g, typ: verbs.RC}
			g.call("iw_create", nil, b)
			if name != "no receive" {
				b.recv(verbs.RecvWR{ID: 1, SGL: []verbs.SGE{g.region(64, verbs.LocalWrite).sge(0, 64)}})
			}
			g.call("iw_listen", args{"address": iwGuestIPv4, "port": port}, nil)
			conn, err := net.DialTimeout("tcp", net.JoinHostPort(iwGuestIPv4, strconv.Itoa(port)), programTimeout)
			must(t, conn, err)
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(programTimeout))
			// Without the peer-to-peer model, so that siw is up when it has replied.
			request := (&wire.Frame{Kind: wire.Request, Revision: 2, Flags: wire.FlagEnhanced | wire.FlagCRC,
				PrivateLen: wire.EnhancedLen}).Append(nil)
			k, err := conn.Write((&wire.Enhanced{IRD: 1, ORD: 1}).Append(request))
			must(t, k, err)
			g.call("iw_accept", args{"qp": b.Handle, "ird": 1, "ord": 1}, nil)
			var s rdmap.Setup
			for done, ok := false, true; !done; {
				k, err := conn.Read(s.Into())
				must(t, k, err)
				if done, ok = s.Received(k, wire.Reply); !ok || done && s.Rejected() {
					t.Fatalf("siw replies %+v", s.Frame)
				}
			}
			f := append([]byte{0, byte(len(c.ulpdu))}, c.ulpdu...)
			f = append(f, make([]byte, wire.PadLen(len(c.ulpdu)))...)
			sum := make([]byte, wire.CRCLen)
			wire.PutCRC(sum, wire.UpdateCRC(0, f)^c.crc)
			k, err = conn.Write(append(f, sum...))
			must(t, k, err)
			head := make([]byte, wire.LengthLen+wire.UntaggedLen)
			k, err = io.ReadFull(conn, head)
			must(t, k, err)
			var h wire.Header
			rest := make([]byte, int(head[0])<<8+int(head[1])-wire.UntaggedLen)
			k, err = io.ReadFull(conn, rest)
			must(t, k, err)
			var term wire.Terminate
			if !h.Decode(head[wire.LengthLen:]) || h.Opcode != wire.OpTerminate || !term.Decode(rest) {
				t.Fatalf("siw answers % x % x", head, rest)
			}
			if term.Cause != c.want {
				t.Errorf("siw terminates with %q, want %q", term.Cause, c.want)
			}
		})
	}
}

// TestIWARPPeerKilled ends the guest's process in the middle of Ramjet's operations: its work
// requests end, and everything can be closed.
func TestIWARPPeerKilled(t *testing.T) {
	const size, count = 1 << 20, 16
	for name, op := range map[string]verbs.SendOp{"WRITE": verbs.OpWrite, "READ": verbs.OpRead} {
		t.Run(name, func(t *testing.T) {
			s := openIW(t, iwFamilies[0], nil, true).stream()
			mine := s.m.region(size, verbs.LocalWrite).(*deviceRegion)
			theirs := s.g.region(size, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
			posted := uint64(0)
			post := func() {
				wr := verbs.SendWR{ID: posted, Op: op, Flags: verbs.Signaled, SGL: []verbs.SGE{mine.sge(0, size)},
					Remote: theirs.remote()}
				if err := s.a.qp.PostSend(&wr); err == nil { // nothing can be posted once it has failed
					posted++
				}
			}
			for range count {
				post()
			}
			failed := false
			for id := uint64(0); id < posted; id++ {
				switch wc := s.a.wait(1)[0]; {
				case wc.ID != id:
					t.Fatalf("completion of %d, want %d", wc.ID, id)
				case wc.Status == verbs.StatusSuccess && !failed:
					if id == 0 {
						s.g.conn.Close()
					}
					post()
				case wc.Status == verbs.StatusWRFlushError,
					!failed && (wc.Status == verbs.StatusRetryExceeded || wc.Status == verbs.StatusRemoteAccessError ||
						wc.Status == verbs.StatusRemoteOperationError):
					failed = true
				default:
					t.Fatalf("completion %d: %v", wc.ID, wc.Status)
				}
			}
			if !failed {
				t.Error("all that was posted succeeded")
			}
			s.ended(t)
			for _, err := range []error{s.id.Close(), s.a.cq.Close(), mine.mr.Close(), s.m.pd.Close(),
				s.m.dev.Close()} {
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
}
