// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"encoding/binary"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// TestLoss sends, writes and reads while 2% of the packets get lost and others overtake
// each other, both ways. Every message must arrive, once, in order and whole.
//
// Where rxe is the requester, it must not get responses in another order than they were
// sent in (TestKernelLateAck). What fails is tried again if rxe has given its requests other
// PSNs meanwhile (TestKernelRenumbers), or has gone to ERR without an error: it does where a
// response to a READ gets lost and a SEND from before it, sent twice, is acknowledged behind
// that (TestKernelLateAck, once more). Any other failure is one.
func TestLoss(t *testing.T) {
	eachLinkedPair(t, func(t *testing.T, p pair) {
		g := dialGuest(t, false)
		for _, direction := range []string{"out", "in"} {
			options := []string{"limit", "10000", "loss", "2%", "delay", "1ms"}
			if direction == "out" || !isKernel(p.a) {
				options = append(options, "reorder", "5%")
			}
			g.netem(direction, options...)
		}
		const rare = 2 // how often rxe may go to ERR in silence: more often it is no accident
		silences := 0
		for end := time.Now().Add(programTimeout); ; {
			requests := p.watchRequests(t)
			silent, err := p.lossy(t)
			if err == nil {
				break
			}
			if silent {
				silences++
			}
			if !silent && !requests.renumbered() || silences > rare || time.Now().After(end) {
				t.Fatal(err)
			}
			t.Logf("rxe changed the PSNs of its requests, or took an old acknowledgement for an error (%v): %v", silent, err)
		}
		for _, direction := range []string{"out", "in"} {
			if _, dropped := g.netemStats(direction); dropped == 0 {
				t.Errorf("netem dropped no packet %s", direction)
			}
		}
	})
}

// lossy sends, writes and reads 20 messages, and says what went wrong; silent: the requester is
// rxe, and in ERR although no completion has an error.
func (p pair) lossy(t *testing.T) (silent bool, err error) {
	const size, messages = 50_000, 20
	a, b := p.queues(verbs.RC, verbs.ConnectOptions{Timeout: 15}) // rxe waits that long for what is lost at the end
	from := p.a.region(size*messages, verbs.LocalWrite)
	sent := p.b.region(size*messages+guard, verbs.LocalWrite)
	written := p.b.region(size*messages+guard, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
	read := p.a.region(size*messages+guard, verbs.LocalWrite)
	from.fill(77, 0, size*messages)
	for i := range messages {
		b.recv(verbs.RecvWR{ID: uint64(i), SGL: []verbs.SGE{sent.sge(i*size, size)}})
	}
	var list []work
	for i := range messages {
		off, id := i*size, uint64(3*i)
		remote := written.remote().At(uint64(off))
		list = append(list,
			work{SendWR: verbs.SendWR{ID: id, Op: verbs.Send, Flags: verbs.Signaled, SGL: []verbs.SGE{from.sge(off, size)}}},
			work{SendWR: verbs.SendWR{ID: id + 1, Op: verbs.Write, Flags: verbs.Signaled, SGL: []verbs.SGE{from.sge(off, size)}, Remote: remote}},
			work{SendWR: verbs.SendWR{ID: id + 2, Op: verbs.Read, Flags: verbs.Signaled, SGL: []verbs.SGE{read.sge(off, size)}, Remote: remote}})
	}
	a.send(list...)
	wcs := a.wait(len(list))
	silent = isKernel(p.a) && a.state() == verbs.Err && !slices.ContainsFunc(wcs, func(wc verbs.WC) bool {
		return wc.Status != verbs.Success && wc.Status != verbs.WRFlushError
	})
	for i, wc := range wcs {
		if op := []verbs.WCOp{verbs.WCSend, verbs.WCWrite, verbs.WCRead}[i%3]; wc.ID != uint64(i) || wc.Status != verbs.Success || wc.Op != op {
			return silent, fmt.Errorf("completion %d %v: %v, want %d %v: success", wc.ID, wc.Op, wc.Status, i, op)
		}
	}
	for i, wc := range b.wait(messages) {
		if wc.ID != uint64(i) || wc.Status != verbs.Success || wc.ByteLen != size {
			return silent, fmt.Errorf("receive %d of %d bytes: %v, want %d of %d: success", wc.ID, wc.ByteLen, wc.Status, i, size)
		}
	}
	for name, r := range map[string]region{"sent": sent, "written": written, "read": read} {
		if i := r.differs(77, 0, size*messages); i >= 0 {
			return silent, fmt.Errorf("byte %d of what was %s differs", i, name)
		}
		if i := slices.IndexFunc(r.bytes(size*messages, guard), func(b byte) bool { return b != 0 }); i >= 0 {
			return silent, fmt.Errorf("byte %d after what was %s was written", i, name)
		}
	}
	return silent, nil
}

// requestWatch is a socket that gets a copy of each packet that comes from the guest.
type requestWatch int

// watchRequests begins to look at the link.
func (p pair) watchRequests(t *testing.T) requestWatch {
	t.Helper()
	protocol := 0x0008 // ETH_P_IP in network order
	if p.ipv6 {
		protocol = 0xdd86
	}
	fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_DGRAM|syscall.SOCK_NONBLOCK, protocol)
	must(t, fd, err)
	t.Cleanup(func() { syscall.Close(fd) })
	err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUFFORCE, 256<<20)
	must(t, fd, err)
	return requestWatch(fd)
}

// renumbered says whether one PSN of a queue pair came with different opcodes.
func (w requestWatch) renumbered() bool {
	type request struct {
		qpn ib.QPN
		psn ib.PSN
	}
	seen := map[request]ib.Opcode{}
	buf := make([]byte, 10_000)
	for {
		n, _, err := syscall.Recvfrom(int(w), buf, 0)
		if err != nil {
			return false
		}
		b := buf[:n]
		if ip := 20; b[0]>>4 == 4 && b[9] == syscall.IPPROTO_UDP {
			b = b[ip:]
		} else if ip := 40; b[0]>>4 == 6 && b[6] == syscall.IPPROTO_UDP {
			b = b[ip:]
		} else {
			continue
		}
		var bth ib.BTH
		if binary.BigEndian.Uint16(b[2:]) != ib.UDPPort || !bth.Decode(b[8:]) {
			continue
		}
		id := request{bth.DestQP, bth.PSN}
		if op, ok := seen[id]; ok && op != bth.Opcode {
			return true
		}
		seen[id] = bth.Opcode
	}
}
