// SPDX-License-Identifier: Apache-2.0

package etherring_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/system/etherring"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
)

const (
	etherType = 0x88b5 // for local experiments (IEEE 802)
	patience  = 2 * time.Minute
)

// cable makes two interfaces in a namespace of the test's own, and sockets of both; nil: the test runs
// elsewhere.
func cable(t *testing.T, o etherring.Options) (from, to *etherring.Socket, header []byte) {
	t.Helper()
	loopback.NeedIP(t)
	if !loopback.InNamespace(t, 65536) {
		return nil, nil, nil
	}
	if err := etherring.Permitted(); err != nil {
		t.Skip(err)
	}
	loopback.SetUp(t, "link add left mtu 2000 type veth peer name right mtu 2000", "link set left up",
		"link set right up")
	var socks [2]*etherring.Socket
	var macs [2]net.HardwareAddr
	for i, name := range []string{"left", "right"} {
		link, err := net.InterfaceByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if socks[i], err = etherring.Open(link.Index, etherType, o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { socks[i].Close() })
		macs[i] = link.HardwareAddr
	}
	header = append(append(header, macs[1]...), macs[0]...)
	return socks[0], socks[1], binary.BigEndian.AppendUint16(header, etherType)
}

// next waits for the next frame.
func next(t *testing.T, s *etherring.Socket) etherring.Frame {
	t.Helper()
	s.SetDeadline(time.Now().Add(patience))
	for {
		if f, ok := s.Next(); ok {
			return f
		}
		if err := s.Wait(false); err != nil {
			t.Fatal(err)
		}
	}
}

// Frames arrive as they were sent, more often than the ring is long.
func TestFrames(t *testing.T) {
	from, to, header := cable(t, etherring.Options{Slots: 20, FrameBytes: 1500})
	if from == nil {
		return
	}
	var out []etherring.Out
	for i := range 3 * to.Slots() {
		body := bytes.Repeat([]byte{byte(i)}, 50+i)
		if out = append(out, etherring.Out{Head: header, Body: body}); len(out) < 7 {
			continue
		}
		if n, err := from.Send(out); n != len(out) || err != nil {
			t.Fatalf("%d of %d sent, %v", n, len(out), err)
		}
		for _, o := range out {
			f := next(t, to)
			if f.Cut || f.Foreign || f.Lost || !bytes.Equal(f.Data, append(bytes.Clone(o.Head), o.Body...)) {
				t.Fatalf("%+v, want %x", f, o)
			}
			to.Release()
		}
		out = out[:0]
	}
	if f, ok := to.Next(); ok {
		t.Errorf("one more: %+v", f)
	}
}

// A full ring loses frames and says how many. Frames that are longer than a slot come cut.
func TestLosses(t *testing.T) {
	from, to, header := cable(t, etherring.Options{Slots: 10, FrameBytes: 400})
	if from == nil {
		return
	}
	const more = 5
	for range to.Slots() + more {
		if _, err := from.Send([]etherring.Out{{Head: header, Body: make([]byte, 100)}}); err != nil {
			t.Fatal(err)
		}
	}
	for range to.Slots() {
		next(t, to)
		to.Release()
	}
	if _, err := from.Send([]etherring.Out{{Head: header, Body: make([]byte, 1000)}}); err != nil {
		t.Fatal(err)
	}
	f := next(t, to)
	if !f.Lost || !f.Cut {
		t.Errorf("after %d frames were lost: %+v", more, f)
	}
	if n := to.Drops(); n != more {
		t.Errorf("%d frames lost, want %d", n, more)
	}
	if n := to.Drops(); n != 0 {
		t.Errorf("%d frames lost since", n)
	}
	if _, err := from.Send([]etherring.Out{{Head: header, Body: make([]byte, 5000)}}); !errors.Is(err,
		syscall.EMSGSIZE) {
		t.Errorf("a frame that is longer than the MTU: %v", err)
	}
}

// Frames to a group come to members.
func TestMembership(t *testing.T) {
	from, to, header := cable(t, etherring.Options{Slots: 10, FrameBytes: 400})
	if from == nil {
		return
	}
	group := [6]byte{0x33, 0x33, 0, 0, 0x12, 0x34}
	if err := to.Join(group); err != nil {
		t.Fatal(err)
	}
	copy(header, group[:])
	if _, err := from.Send([]etherring.Out{{Head: header, Body: make([]byte, 100)}}); err != nil {
		t.Fatal(err)
	}
	if f := next(t, to); f.Foreign {
		t.Errorf("%+v", f)
	}
	if err := to.Leave(group); err != nil {
		t.Error(err)
	}
}

// A wait ends by Wake, before it or in it, by a deadline, also one that is set while it lasts, and by Close.
func TestWait(t *testing.T) {
	from, to, _ := cable(t, etherring.Options{Slots: 10, FrameBytes: 400})
	if from == nil {
		return
	}
	ended := make(chan error)
	wait := func() {
		go func() { ended <- to.Wait(false) }()
	}
	end := func(what string, want error) {
		t.Helper()
		select {
		case err := <-ended:
			if !errors.Is(err, want) {
				t.Fatalf("%s: %v", what, err)
			}
		case <-time.After(patience):
			t.Fatalf("%s does not end a wait", what)
		}
	}
	to.Wake()
	wait()
	end("Wake before it", nil)
	wait()
	to.Wake()
	end("Wake", nil)
	to.SetDeadline(time.Now().Add(-time.Second))
	wait()
	end("a deadline", nil)
	to.SetDeadline(time.Now().Add(time.Hour))
	wait()
	time.Sleep(time.Millisecond)
	to.SetDeadline(time.Now().Add(time.Millisecond))
	end("an earlier deadline", nil)
	if err := to.Wait(true); err != nil { // there is room to send
		t.Error(err)
	}
	to.SetDeadline(time.Time{})
	wait()
	time.Sleep(time.Millisecond)
	to.Close()
	end("Close", net.ErrClosed)
}
