// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
)

// pipe holds the bytes that one end has written, for the other end to read.
type pipe struct{ bytes.Buffer }

func samplePackets() *Packets {
	var p Packets
	n := uint64(0)
	fill(reflect.ValueOf(&p).Elem(), &n)
	p.Wire = RoCEv1
	return &p
}

// Requests and answers are read as they were written.
func TestPacketStream(t *testing.T) {
	var b pipe
	out, in := NewPacketStream(&b), NewPacketStream(&b)
	for _, want := range []PacketRequest{{"roce:192.0.2.1", 17, 100}, {"iwarp:192.0.2.1", 1<<24 - 1, 0}} {
		var got PacketRequest
		if err := out.SendRequest(&want); err != nil {
			t.Fatal(err)
		}
		if err := in.ReadRequest(&got); err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
	}
	want := samplePackets()
	var c pipe
	out, in = NewPacketStream(&c), NewPacketStream(&c)
	for range 2 {
		if err := out.SendReply(want); err != nil {
			t.Fatal(err)
		}
		got, err := in.ReadReply()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("read    %+v\nwritten %+v\n%v", got, want, err)
		}
	}
}

// Bytes that are no answer are refused, and no more packets are taken than there can be.
func TestPacketStreamMalformed(t *testing.T) {
	var many, good pipe
	NewPacketStream(&many).SendReply(&Packets{Packets: make([]Packet, ringSize+1)})
	NewPacketStream(&good).SendReply(samplePackets())
	for want, b := range map[string][]byte{
		"cut off": good.Bytes()[:good.Len()-1], "no watcher": []byte("HTTP/1.1 400 Bad Request"),
		"by version 9":  []byte(packetMagic + "\x09"),
		"more than 512": many.Bytes(), "none of an answer": []byte(packetMagic + "\x01\x02\x00"),
	} {
		p, err := NewPacketStream(bytes.NewBuffer(b)).ReadReply()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v", want, p, err)
		}
	}
}

// A ring has the newest packets, and of each the headers only.
func TestRing(t *testing.T) {
	r := newRing(ringSize)
	if list, seen := r.Last(10); len(list) != 0 || seen != 0 {
		t.Errorf("%v", list)
	}
	head := bytes.Repeat([]byte{7}, 500)
	for i := range ringSize + 10 {
		r.Add(&Packet{At: int64(i), Head: head[:min(i, 500)]})
	}
	list, seen := r.Last(math.MaxInt)
	if len(list) != ringSize || seen != ringSize+10 || list[0].At != 10 || list[ringSize-1].At != ringSize+9 {
		t.Fatalf("%d of %d, from %d to %d", len(list), seen, list[0].At, list[len(list)-1].At)
	}
	if len(list[0].Head) != 10 || len(list[ringSize-1].Head) != headLen {
		t.Errorf("%d and %d bytes", len(list[0].Head), len(list[ringSize-1].Head))
	}
	if list, _ = r.Last(2); len(list) != 2 || list[1].At != ringSize+9 {
		t.Errorf("%+v", list)
	}
	if list, _ = r.Last(-1); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}

func FuzzAnswered(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	var b pipe
	NewPacketStream(&b).SendReply(samplePackets())
	f.Add(b.Bytes())
	f.Add([]byte(packetMagic + "\x01\x01\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := NewPacketStream(bytes.NewBuffer(b)).ReadReply()
		if err != nil {
			return
		}
		var c pipe
		NewPacketStream(&c).SendReply(p)
		again, err := NewPacketStream(&c).ReadReply()
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("read again: %v\n%+v\n%+v", err, again, p)
		}
	})
}

func FuzzAsked(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	var b pipe
	NewPacketStream(&b).SendRequest(&PacketRequest{"roce:192.0.2.1", 17, 100})
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		var r PacketRequest
		if NewPacketStream(bytes.NewBuffer(b)).ReadRequest(&r) == nil && (len(r.Device) > 4*maxText || r.Most < 0) {
			t.Errorf("%+v", r)
		}
	})
}
