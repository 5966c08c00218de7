// SPDX-License-Identifier: Apache-2.0

package roce_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Packets that a peer on this host has not read are not lost, and not retransmitted. Packets that it has read and does
// not acknowledge are.
func TestUnreadIsNotLost(t *testing.T) {
	dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) { return roce.Open(addr, nil) })
	peer, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(loopback.Next(), ib.UDPPort)))
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := dev.CreateCQ(8, nil)
	if err != nil {
		t.Fatal(err)
	}
	qp, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
	if err != nil {
		t.Fatal(err)
	}
	from, err := qp.Endpoint(0)
	if err != nil {
		t.Fatal(err)
	}
	to := from
	to.QPN, to.GID = 77, ib.GIDFromAddr(peer.LocalAddr().(*net.UDPAddr).AddrPort().Addr())
	if err := qp.Connect(from, to, &verbs.ConnectOptions{Timeout: 18}); err != nil { // given up after 9 s
		t.Fatal(err)
	}
	mr, err := pd.RegMR(make([]byte, 8), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{mr.SGE(0, 8)}}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond) // many times the first timeout
	if n := loopback.Counter(t, dev, "rewinds"); n != 0 {
		t.Errorf("sent again %d times what the peer has not read", n)
	}
	var b [256]byte
	peer.SetReadDeadline(time.Now().Add(time.Minute))
	for range 2 { // the request, and the request again
		if _, _, err := peer.ReadFromUDPAddrPort(b[:]); err != nil {
			t.Fatal("what was read and not acknowledged was not sent again: ", err)
		}
	}
}
