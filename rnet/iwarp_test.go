// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/localca"
	"github.com/ramjet-rdma/ramjet/internal/engine/rsocket"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/iwarp"
	"github.com/ramjet-rdma/ramjet/shm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// openIWARP opens an iWARP device of a loopback address of its own.
func openIWARP(t testing.TB) *verbs.Device {
	t.Helper()
	dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) { return iwarp.Open(addr, nil) })
	return dev
}

func TestIWARP(t *testing.T) { overIWARP(t, openIWARP) }

// TestTLS is TestIWARP inside TLS, TestSCTP over SCTP.
func TestTLS(t *testing.T) {
	t.Parallel()
	ca, err := localca.New()
	if err != nil {
		t.Fatal(err)
	}
	overIWARP(t, func(t testing.TB) *verbs.Device {
		dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) {
			c, err := ca.Config(netip.MustParseAddr(addr))
			if err != nil {
				t.Fatal(err)
			}
			return iwarp.Open(addr, &iwarp.Options{TLS: c})
		})
		return dev
	})
}

// TestSharedMemory is TestIWARP over shared memory.
func TestSharedMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("shared memory needs Linux")
	}
	t.Parallel()
	overIWARP(t, func(t testing.TB) *verbs.Device {
		dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) { return shm.Open(addr, nil) })
		return dev
	})
}

func TestSCTP(t *testing.T) {
	t.Parallel()
	overIWARP(t, func(t testing.TB) *verbs.Device {
		dev, _ := loopback.Open(t, func(addr string) (*verbs.Device,
			error) {
			return iwarp.Open(addr, &iwarp.Options{SCTP: true})
		})
		return dev
	})
}

func overIWARP(t *testing.T, open func(testing.TB) *verbs.Device) {
	da, db := open(t), open(t)
	for name, o := range map[string]Options{
		"default": {},
		"odd":     {SendBuffer: 12345, RecvBuffer: 23456, SendQueue: 17, RecvQueue: 19, Inline: 100},
		"busy":    {Spin: Busy},
		"probing": {KeepAlive: time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pairOf(t, da, db, o)
			bothWays(t, a, b)
		})
	}
	t.Run("mapped", func(t *testing.T) {
		a, b := pairOf(t, da, db, Options{IOMaps: 1})
		mapped(t, a, b)
	})
	t.Run("nettest", func(t *testing.T) {
		l, err := Listen(t.Context(), db, ":0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		testConn(t, func() (net.Conn, net.Conn, func(), error) {
			a := dial(t, da, l)
			b, err := l.Accept()
			return a, b, func() { a.Close(); b.Close() }, err
		})
	})
}

// Data that was written before Close arrives, also if the peer has written data that is never read.
func TestIWARPCloseDelivers(t *testing.T) {
	da, db := openIWARP(t), openIWARP(t)
	l, err := Listen(t.Context(), db, ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 10 {
		a := dial(t, da, l)
		b, err := l.AcceptConn()
		if err != nil {
			t.Fatal(err)
		}
		deadline(t, a, b)
		const n = 300_000
		b.Write([]byte("unread"))
		if _, err := a.Write(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() {
			k, err := io.Copy(io.Discard, b)
			if err == nil && k != n {
				err = io.ErrUnexpectedEOF
			}
			got <- err
		}()
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		b.Close()
	}
}

// Over iWARP a message is a WRITE of its data, and a SEND of four bytes in the processor's byte
// order, as librdmacm's rsockets have it there.
func TestIWARPMessages(t *testing.T) {
	create := func(pd *verbs.PD, init verbs.QPInit) (*verbs.QP, error) { return pd.CreateQP(init) }
	var ends [2]*endpoint
	var at [2]verbs.Endpoint
	for i := range ends {
		e, err := newEndpoint(openIWARP(t), Options{}, create)
		if err != nil {
			t.Fatal(err)
		}
		if at[i], err = e.qp.Endpoint(0); err != nil {
			t.Fatal(err)
		}
		ends[i] = e
	}
	for i, e := range ends {
		if err := e.qp.Connect(at[i], at[1-i], nil); err != nil {
			t.Fatal(err)
		}
		if err := e.postReceives(); err != nil {
			t.Fatal(err)
		}
	}
	peer := ends[1]
	a, err := newConn(ends[0], &handLink{qp: ends[0].qp}, peer.connData())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	deadline(t, a)
	small, large := []byte("hello"), make([]byte, 1000)
	for i := range large {
		large[i] = byte(i)
	}
	want := []rsocket.Message{rsocket.NewMessage(rsocket.OpSGL, DefaultQueue), rsocket.NewMessage(rsocket.OpData, 5),
		rsocket.NewMessage(rsocket.OpData, 1000), rsocket.NewMessage(rsocket.OpControl, uint32(rsocket.Shutdown))}
	for _, b := range [][]byte{small, large} {
		if _, err := a.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	a.CloseWrite()
	for i, m := range want {
		var wc [1]verbs.WC
		if _, err := peer.cq.Wait(t.Context(), wc[:]); err != nil {
			t.Fatal(err)
		}
		word := peer.in.words.Bytes()[wc[0].ID*4:]
		if got := rsocket.Message(binary.LittleEndian.Uint32(word)); wc[0].Op != verbs.WCRecv || wc[0].ByteLen != 4 ||
			wc[0].ID != uint64(i) || got != m {
			t.Errorf("message %d is %v, %+v, want %v", i, got, wc[0], m)
		}
	}
	if got := peer.recv.Bytes()[:1005]; string(got) != string(small)+string(large) {
		t.Error("other data")
	}
}
