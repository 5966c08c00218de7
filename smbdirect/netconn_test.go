// SPDX-License-Identifier: Apache-2.0

package smbdirect_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/smbdirect"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func framed(m []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(m))), m...)
}

// A program that speaks SMB over TCP finds its frames, however it cuts them, and its peer finds messages.
func TestNetConn(t *testing.T) {
	kinds(t, func(t *testing.T, server, client *verbs.Device) {
		a, b := pair(t, server, client, smbdirect.Options{}, smbdirect.Options{})
		c := b.NetConn()
		var frames []byte
		for _, n := range []int{1, 100, 9000, 100000} {
			frames = append(frames, framed(message(9, n))...)
		}
		for off, piece := 0, 1; off < len(frames); off, piece = off+piece, min(piece*3, len(frames)-off-piece) {
			if n, err := c.Write(frames[off:][:piece]); n != piece || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
		}
		for _, n := range []int{1, 100, 9000, 100000} {
			m := message(9, n)
			receives(t, a, m)
			ok(t, a.WriteMessage(within(t), m))
		}
		got := make([]byte, len(frames))
		ok(t, c.SetDeadline(time.Now().Add(patience)))
		if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, frames) {
			t.Errorf("other bytes: %v", err)
		}
		for _, bad := range [][]byte{{1, 0, 0, 1}, {0, 0xff, 0xff, 0xff}} {
			if _, err := b.NetConn().Write(bad); err == nil {
				t.Errorf("%x is taken", bad)
			}
		}
		ok(t, a.Close())
		if n, err := c.Read(got); n != 0 || err != io.EOF {
			t.Errorf("%d, %v after the end", n, err)
		}
		ok(t, c.Close())
		if _, err := c.Read(got); !errors.Is(err, net.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// Deadlines end calls that wait, and can be moved.
func TestDeadlines(t *testing.T) {
	kinds(t, func(t *testing.T, server, client *verbs.Device) {
		o := smbdirect.Options{SendCredits: 8, RecvCredits: 8, MaxFragmentedSize: 128 << 10}
		a, b := pair(t, server, client, o, o)
		c := b.NetConn()
		late := func(err error) {
			t.Helper()
			var timeout net.Error
			if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
				t.Error(err)
			}
		}
		ok(t, c.SetReadDeadline(time.Now().Add(-1)))
		_, err := c.Read(make([]byte, 1))
		late(err)
		done := make(chan error, 1)
		ok(t, c.SetReadDeadline(time.Time{}))
		go func() {
			_, err := c.Read(make([]byte, 1))
			done <- err
		}()
		ok(t, c.SetReadDeadline(time.Now().Add(time.Millisecond)))
		late(<-done)
		ok(t, c.SetReadDeadline(time.Now().Add(patience)))
		ok(t, a.WriteMessage(within(t), []byte("x")))
		got := make([]byte, 5)
		if _, err := io.ReadFull(c, got); err != nil || got[4] != 'x' {
			t.Errorf("%x, %v", got, err)
		}
		// Nobody reads at the other side: at some time there are no more credits.
		ok(t, c.SetWriteDeadline(time.Now().Add(20*time.Millisecond)))
		for err = nil; err == nil; {
			_, err = c.Write(framed(make([]byte, 50000)))
		}
		late(err)
	})
}

// Over iWARP both sides say how many READs they take and make, as Linux does.
func TestPrivateData(t *testing.T) {
	kinds(t, func(t *testing.T, server, client *verbs.Device) {
		if server.Query().Transport != verbs.TransportIWARP {
			return
		}
		l, err := cm.Listen(t.Context(), server, ":0")
		ok(t, err)
		defer l.Close()
		ctx, cancel := context.WithCancel(within(t))
		dialed := make(chan error, 1)
		go func() {
			_, err := smbdirect.Dial(ctx, client, l.Addr().String(), patient(smbdirect.Options{}))
			dialed <- err
		}()
		req, err := l.Next(within(t))
		ok(t, err)
		be := binary.BigEndian
		if b := req.Param().PrivateData; len(b) != 8 || be.Uint32(b) == 0 || be.Uint32(b[4:]) > 255 {
			t.Errorf("%x", b)
		}
		ok(t, req.Reject(nil))
		<-dialed
		cancel()

		sl := listen(t, server, smbdirect.Options{})
		c, err := cm.Dial(within(t), client, sl.Addr().String(), cm.WithPrivateData([]byte{0, 0, 0, 2, 0, 0, 0, 1}))
		ok(t, err)
		defer c.Close()
		if b := c.Param().PrivateData; len(b) != 8 || binary.BigEndian.Uint32(b[4:]) != 2 {
			t.Errorf("the answer has %x", b)
		}
		plain, err := cm.Dial(within(t), client, sl.Addr().String())
		ok(t, err)
		defer plain.Close()
		if b := plain.Param().PrivateData; len(b) != 0 {
			t.Errorf("the answer to a peer that says nothing has %x", b)
		}
	})
}
