// SPDX-License-Identifier: Apache-2.0

package iwarp_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/iwarp"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func openSCTP(t testing.TB) (*verbs.Device, netip.Addr) {
	t.Helper()
	return loopback.Open(t, func(addr string) (*verbs.Device,
		error) {
		return iwarp.Open(addr, &iwarp.Options{SCTP: true})
	})
}

// TestSCTPConformance runs the suite over SCTP.
func TestSCTPConformance(t *testing.T) {
	suite(t, func(t testing.TB) *verbs.Device {
		dev, _ := openSCTP(t)
		return dev
	}, map[string]string{"Measure/Allocations": "the library for SCTP allocates for each packet",
		"Measure/IdleQP": "an association has goroutines and buffers"})
}

// TestSCTP sends messages both ways, and private data.
func TestSCTP(t *testing.T) {
	t.Parallel()
	a, _ := openSCTP(t)
	b, addr := openSCTP(t)
	if want := "iwarp+sctp:" + addr.String(); b.Name() != want {
		t.Errorf("the device is called %s, not %s", b.Name(), want)
	}
	ctx := bounded(t)
	address := pair.EchoAddress(t, b)
	c, err := cm.Dial(ctx, a, address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.PeerAddr().String() != address {
		t.Errorf("connected to %v, not %v", c.PeerAddr(), address)
	}
	echoes(ctx, t, c)
}

// TestSCTPRefused dials a port without a listener, a listener that rejects, and an address without a host.
func TestSCTPRefused(t *testing.T) {
	t.Parallel()
	a, _ := openSCTP(t)
	b, addr := openSCTP(t)
	ctx := bounded(t)
	var rej *cm.RejectError
	if _, err := cm.Dial(ctx, a, netip.AddrPortFrom(addr, 7).String()); !errors.As(err, &rej) ||
		rej.Reason != cm.ReasonInvalidService {
		t.Errorf("dialing where nobody listens: %v", err)
	}
	l, err := cm.Listen(ctx, b, ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := cm.Listen(ctx, b, l.Addr().String()); !errors.Is(err, cm.ErrAddrInUse) {
		t.Errorf("listening twice: %v", err)
	}
	go func() {
		if r, err := l.Next(ctx); err == nil {
			if got := string(r.Param().PrivateData); got != "hello" {
				t.Errorf("private data %q", got)
			}
			r.Reject([]byte("not today"))
		}
	}()
	if _, err := cm.Dial(ctx, a, l.Addr().String(), cm.WithPrivateData([]byte("hello"))); !errors.As(err, &rej) ||
		string(rej.PrivateData) != "not today" {
		t.Errorf("dialing somebody who does not want: %v", err)
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if _, err := cm.Dial(short, a, netip.AddrPortFrom(loopback.Next(), 7).String()); err == nil {
		t.Error("nobody answers")
	}
	if again, err := iwarp.Open(addr.String(), &iwarp.Options{SCTP: true}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a second device of the address: %v", err)
		if err == nil {
			again.Close()
		}
	}
}

// TestSCTPGone has one side close its device.
func TestSCTPGone(t *testing.T) {
	t.Parallel()
	a, _ := openSCTP(t)
	b, _ := openSCTP(t)
	ctx := bounded(t)
	c, err := cm.Dial(ctx, a, pair.EchoAddress(t, b))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b.Close()
	select {
	case <-c.Done():
	case <-ctx.Done():
		t.Error("the peer does not hear of the end")
	}
}

// TestSCTPJunk sends packets that are none, INITs that lead nowhere, and then asks whether
// the device still works.
func TestSCTPJunk(t *testing.T) {
	t.Parallel()
	b, addr := openSCTP(t)
	address := pair.EchoAddress(t, b)
	port := netip.MustParseAddrPort(address).Port()
	raw, err := net.Dial("udp", netip.AddrPortFrom(addr, 9899).String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	packet := func(to uint16, chunk ...byte) []byte {
		p := make([]byte, 12, 12+len(chunk))
		binary.BigEndian.PutUint16(p, 7777)
		binary.BigEndian.PutUint16(p[2:], to)
		p = append(p, chunk...)
		binary.LittleEndian.PutUint32(p[8:], crc32.Checksum(p, crc32.MakeTable(crc32.Castagnoli)))
		return p
	}
	init := []byte{1, 0, 0, 20, 1, 2, 3, 4, 0, 1, 0, 0, 0, 10, 0, 10, 0, 0, 0, 1}
	good := packet(port, init...)
	bad := bytes.Clone(good)
	bad[8] ^= 1
	for _, p := range [][]byte{{}, {1, 2, 3}, make([]byte, 12), make([]byte, 9000), bad, packet(port),
		packet(port, 1, 0, 0, 4), packet(port, 1, 0, 0xff, 0xff, 0, 0, 0, 0),
		packet(port, 0, 3, 0, 17, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 16, 5), packet(port, 6, 0, 0, 4),
		packet(port, 10, 0, 0, 8, 1, 2, 3, 4), good} {
		raw.Write(p)
	}
	raw.Write(packet(port+1, init...)) // there is no listener
	raw.SetReadDeadline(time.Now().Add(3 * time.Minute))
	for b := make([]byte, 9000); ; {
		n, err := raw.Read(b)
		if err != nil {
			t.Fatalf("no ABORT: %v", err)
		}
		if n == 16 && b[12] == 6 && bytes.Equal(b[4:8], init[4:8]) && binary.BigEndian.Uint16(b) == port+1 {
			break
		}
	}
	a, _ := openSCTP(t)
	c, err := cm.Dial(bounded(t), a, address)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// TestSCTPLastWords has a program close its device as soon as its last message has completed: the
// message arrives, as it does over TCP.
func TestSCTPLastWords(t *testing.T) {
	iwarp.PatientSCTP(t) // for the process, so only its own parts run beside each other
	for i := range 4 {
		t.Run(fmt.Sprint(i), lastWords)
	}
}

// lastWords has a device close after one message.
func lastWords(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	a, _ := openSCTP(t)
	b, _ := openSCTP(t)
	l, err := cm.Listen(ctx, b, ":0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan *cm.Conn, 1)
	go func() {
		defer close(accepted)
		if c, err := l.Accept(ctx); err == nil {
			accepted <- c
		}
	}()
	from, err := cm.Dial(ctx, a, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	to := <-accepted
	if to == nil {
		t.Fatal("not accepted")
	}
	if err := from.Send(ctx, []byte("the end")); err != nil {
		t.Fatal(err)
	}
	a.Close()
	m, err := to.Recv(ctx)
	if err != nil {
		t.Fatalf("the last message: %v", err)
	}
	if string(m.Bytes()) != "the end" {
		t.Errorf("the last message is %q", m.Bytes())
	}
	to.Close()
	l.Close()
	b.Close()
}
