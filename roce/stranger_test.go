// SPDX-License-Identifier: Apache-2.0

package roce_test

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// reader is a queue pair with memory for READs.
type reader struct {
	qp *verbs.QP
	cq *verbs.CQ
	mr *verbs.MR
	ep verbs.Endpoint
}

func newReader(b *testing.B, dev *verbs.Device, size int) *reader {
	b.Helper()
	pd, err := dev.AllocPD()
	ok(b, err)
	r := &reader{}
	r.cq, err = dev.CreateCQ(64, nil)
	ok(b, err)
	r.mr, err = pd.AllocMR(size, verbs.LocalWrite|verbs.RemoteRead)
	ok(b, err)
	r.qp, err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: r.cq, RecvCQ: r.cq})
	ok(b, err)
	r.ep, err = r.qp.Endpoint(0)
	ok(b, err)
	return r
}

// read READs all the peer's memory, which is as large as r's own.
func (r *reader) read(b *testing.B, of *reader) {
	b.Helper()
	ok(b, r.qp.PostSend(&verbs.SendWR{Op: verbs.OpRead, Flags: verbs.Signaled,
		SGL: []verbs.SGE{r.mr.SGE(0, len(r.mr.Bytes()))}, Remote: of.mr.Remote()}))
	var wc [1]verbs.WC
	for r.cq.Poll(wc[:]) == 0 {
	}
	if wc[0].Status != verbs.StatusSuccess {
		b.Fatal(wc[0].Status)
	}
}

func ok(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// flood has a bare socket ask the queue pair of r for all of its memory, depth times at once, until
// the benchmark ends.
func flood(b *testing.B, at netip.Addr, r *reader, depth int) {
	b.Helper()
	self, to := netip.AddrPortFrom(loopback.Next(), ib.UDPPort), netip.AddrPortFrom(at, ib.UDPPort)
	sock, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(self))
	ok(b, err)
	pseudo := ib.NewPseudoHeader(self, to, true)
	ok(b, r.qp.Connect(r.ep, verbs.Endpoint{QPN: 0x1234, GID: ib.GIDFromAddr(self.Addr()), MTU: r.ep.MTU}, nil))
	size := len(r.mr.Bytes())
	psn, packets := ib.PSN(0), size/r.ep.MTU.Bytes()
	ask := func() {
		p := ib.Packet{BTH: ib.BTH{Opcode: ib.RCReadRequest, PKey: ib.DefaultPKey, DestQP: r.qp.Num(), PSN: psn},
			RETH: ib.RETH{VA: r.mr.Addr(), RKey: r.mr.RKey(), DMALen: uint32(size)}}
		psn = psn.Add(packets)
		sock.WriteToUDPAddrPort(frame(&p, pseudo), to)
	}
	for range depth {
		ask()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		end, count := ib.PSN(packets), 0 // of the oldest, and datagrams
		var buf [8192]byte
		for {
			n, err := sock.Read(buf[:])
			if err != nil {
				return
			}
			var h ib.BTH
			for h.Decode(buf[:n]); !h.PSN.Before(end.Add(-1)); end = end.Add(packets) {
				ask()
			}
			// packets that overrun the socket meanwhile are lost: the processors are for the others
			if count++; count%256 == 0 {
				time.Sleep(5 * time.Millisecond)
			}
		}
	}()
	b.Cleanup(func() { sock.Close(); <-done })
}

// BenchmarkVictim measures READs of 8 bytes, alone and while a stranger wants gigabytes of the same
// device.
func BenchmarkVictim(b *testing.B) {
	for _, bench := range []struct {
		name  string
		reads int
	}{{"alone", 0}, {"beside 16 READs of 128 MiB", 16}} {
		b.Run(bench.name, func(b *testing.B) {
			open := func() (*verbs.Device, netip.Addr) {
				return loopback.Open(b, func(a string) (*verbs.Device, error) { return roce.Open(a, nil) })
			}
			server, at := open()
			here, _ := open()
			victim, word := newReader(b, here, 8), newReader(b, server, 8)
			ok(b, victim.qp.Connect(victim.ep, word.ep, nil))
			ok(b, word.qp.Connect(word.ep, victim.ep, nil))
			if bench.reads > 0 {
				flood(b, at, newReader(b, server, 128<<20), bench.reads)
			}
			var trips []time.Duration
			before := loopback.Counter(b, server, "sent_bytes")
			for b.Loop() {
				start := time.Now()
				victim.read(b, word)
				trips = append(trips, time.Since(start))
			}
			b.ReportMetric(float64(loopback.Counter(b, server, "sent_bytes")-before)/1e3/float64(len(trips)),
				"kB-sent/op")
			slices.Sort(trips)
			for _, p := range []struct {
				name string
				of   int // thousand
			}{{"p50-µs", 500}, {"p99.9-µs", 999}} {
				b.ReportMetric(float64(trips[len(trips)*p.of/1000])/1e3, p.name)
			}
		})
	}
}
