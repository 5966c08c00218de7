// SPDX-License-Identifier: Apache-2.0

package roce_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// talker is a device whose queue pairs send to peers that are bare sockets.
type talker struct {
	*testing.T
	dev *verbs.Device
	pd  *verbs.PD
	cq  *verbs.CQ
	to  netip.AddrPort // of the device
}

func newTalker(t *testing.T) *talker {
	t.Helper()
	dev, addr := open(t, nil)
	k := &talker{T: t, dev: dev, to: netip.AddrPortFrom(addr, ib.UDPPort)}
	var err error
	k.pd, err = dev.AllocPD()
	k.ok(err)
	k.cq, err = dev.CreateCQ(1024, nil)
	k.ok(err)
	return k
}

func (k *talker) ok(err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}

// connect makes a queue pair that is connected to an address.
func (k *talker) connect(to netip.Addr) *verbs.QP {
	k.Helper()
	qp, err := k.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: k.cq, RecvCQ: k.cq,
		Cap: verbs.QPCap{MaxSendWR: 16, MaxInline: 16}})
	k.ok(err)
	local, err := qp.Endpoint(0)
	k.ok(err)
	// Nothing is sent twice within the test.
	k.ok(qp.Connect(local, verbs.Endpoint{QPN: forgedQPN, GID: ib.GIDFromAddr(to), MTU: verbs.MTU1024},
		&verbs.ConnectOptions{Timeout: 24}))
	return qp
}

func (k *talker) say(qp *verbs.QP) {
	k.Helper()
	k.ok(qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, Inline: []byte("hello")}))
}

// peer opens the socket of a peer.
func (k *talker) peer() (*net.UDPConn, netip.Addr) {
	for {
		addr := loopback.Next()
		if sock, err := net.ListenUDP("udp4",
			net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, ib.UDPPort))); err == nil {
			k.Cleanup(func() { sock.Close() })
			return sock, addr
		}
	}
}

// hears takes a packet whose ICRC is right from a peer's socket, and returns the port that it came from.
func (k *talker) hears(sock *net.UDPConn) uint16 {
	k.Helper()
	var b [2048]byte
	sock.SetReadDeadline(time.Now().Add(2 * time.Minute))
	n, from, err := sock.ReadFromUDPAddrPort(b[:])
	k.ok(err)
	pseudo := ib.NewPseudoHeader(from, sock.LocalAddr().(*net.UDPAddr).AddrPort(), true)
	if _, how := pseudo.Verify(b[:n], 0); how == ib.NotVerified || from.Addr() != k.to.Addr() {
		k.Fatalf("a packet of %d bytes from %v: %v", n, from, how)
	}
	return from.Port()
}

// TestSourcePorts holds that each peer is sent to from a port of its own, as long as there
// are not too many of them, and as before from then on.
func TestSourcePorts(t *testing.T) {
	t.Parallel()
	if err := loopback.TellsIdentification(); err != nil {
		t.Skip(err)
	}
	const most = 64
	k := newTalker(t)
	seen := map[uint16]bool{}
	var qps []*verbs.QP
	for i := range most + 2 {
		sock, addr := k.peer()
		qp := k.connect(addr)
		qps = append(qps, qp)
		k.say(qp)
		port := k.hears(sock)
		switch {
		case i < most && (port == ib.UDPPort || seen[port]):
			t.Errorf("peer %d: from port %d, which another one has", i, port)
		case i >= most && port != ib.UDPPort:
			t.Errorf("peer %d: from port %d", i, port)
		}
		seen[port] = true
		k.say(qp)
		if again := k.hears(sock); again != port {
			t.Errorf("peer %d: from port %d and port %d", i, port, again)
		}
	}
	// When nobody is connected to a peer any more, another one can have its place.
	k.ok(qps[0].Close())
	sock, addr := k.peer()
	k.say(k.connect(addr))
	if port := k.hears(sock); port == ib.UDPPort {
		t.Error("no place became free")
	}
}

// TestRefused sends to a peer that is not there yet.
func TestRefused(t *testing.T) {
	t.Parallel()
	k := newTalker(t)
	sock, addr := k.peer()
	sock.Close()
	qp := k.connect(addr)
	for range 5 {
		k.say(qp) // from the second one on the socket has heard of it
	}
	sock, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, ib.UDPPort)))
	k.ok(err)
	defer sock.Close()
	for range 3 {
		k.say(qp)
		k.hears(sock)
	}
}

// TestTraceBothSides compares what two devices recorded: what one received, the other one
// says to have sent, source port and identification included. And it holds that
// identifications are predicted: each side solves for the first one, and after losses.
func TestTraceBothSides(t *testing.T) {
	t.Parallel()
	var files [2]bytes.Buffer
	var sides [2]*verbs.Device
	var addrs [2]netip.Addr
	var writers [2]*trace.Writer
	for i := range sides {
		w, err := trace.NewWriter(&files[i], "roce:test")
		if err != nil {
			t.Fatal(err)
		}
		writers[i] = w
		sides[i], addrs[i] = open(t, &roce.Options{Trace: w})
	}
	exchange(t, sides)
	var counters [2]map[string]uint64
	for i, dev := range sides {
		counters[i] = map[string]uint64{}
		for _, name := range []string{"sent_pkts", "rcvd_pkts", "rcvd_pkts_icrc_id_solved", "dropped_icrc_error"} {
			counters[i][name] = loopback.Counter(t, dev, name)
		}
		dev.Close()
	}
	var packets [2][][]byte
	for i, w := range writers {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if n := w.Dropped(); n > 0 {
			t.Skipf("%d packets were not recorded: this system is busy", n)
		}
		packets[i] = packetsOf(files[i].Bytes())
	}
	for i, peer := range counters {
		own, from := counters[1-i], addrs[i].As4()
		lost := peer["sent_pkts"] - min(own["rcvd_pkts"], peer["sent_pkts"])
		if n := own["rcvd_pkts_icrc_id_solved"]; n > 1+lost || own["dropped_icrc_error"] > 0 {
			t.Errorf("%d identifications of %d were not predicted, %d ICRCs were wrong", n, own["rcvd_pkts"],
				own["dropped_icrc_error"])
		}
		sent := map[string]int{}
		for _, p := range packets[i] {
			sent[string(p)]++
		}
		received := 0
		for _, p := range packets[1-i] {
			if [4]byte(p[12:]) != from {
				continue
			}
			received++
			if sent[string(p)]--; sent[string(p)] < 0 {
				t.Fatalf("received from %v, and not sent: % x", addrs[i], p[:min(len(p), 64)])
			}
		}
		if received < 50 {
			t.Errorf("%d packets", received)
		}
	}
}

// exchange sends short and long messages in both directions.
func exchange(t *testing.T, devs [2]*verbs.Device) {
	t.Helper()
	const size = 1 << 20
	s := pair.Connect(t, devs[0], devs[1], pair.Options{Type: verbs.RC, Size: size, Depth: 16})
	for round, n := range []int{8, 5000, 8, 8, 40_000, 100, size, 8, 70_000} {
		for i := range s {
			for _, op := range []verbs.SendOp{verbs.OpWrite, verbs.OpRead} {
				err := s[i].QP.PostSend(&verbs.SendWR{Op: op, Flags: verbs.Signaled,
					SGL: []verbs.SGE{s[i].MR.SGE(0, n)}, Remote: s[1-i].MR.Remote()})
				if err != nil {
					t.Fatal(err)
				}
				var wcs [1]verbs.WC
				for end := time.Now().Add(2 * time.Minute); s[i].CQ.Poll(wcs[:]) == 0; s[1-i].CQ.Poll(nil) {
					if time.Now().After(end) {
						t.Fatalf("round %d: no completion", round)
					}
				}
				if wcs[0].Status != verbs.StatusSuccess {
					t.Fatalf("round %d: %v", round, wcs[0].Status)
				}
			}
		}
	}
}

// packetsOf returns the IP packets of a recording.
func packetsOf(file []byte) (all [][]byte) {
	const enhancedPacket = 6
	for len(file) >= 12 {
		n := binary.LittleEndian.Uint32(file[4:])
		if binary.LittleEndian.Uint32(file) == enhancedPacket {
			length := binary.LittleEndian.Uint32(file[20:])
			all = append(all, file[28:28+length])
		}
		file = file[n:]
	}
	return all
}
