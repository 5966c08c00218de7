// SPDX-License-Identifier: Apache-2.0

package smbdirect

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/smbdirect/wire"
)

// The last credit is for a message that grants some.
func TestLastCredit(t *testing.T) {
	f := flow{limit: 10, credits: 2}
	f.request(10)
	if !f.maySend() || f.send() != 0 || f.credits != 1 {
		t.Fatalf("%+v", f)
	}
	if f.maySend() {
		t.Error("the last credit is spent for nothing")
	}
	f.posted = 3
	if !f.maySend() || f.send() != 3 || f.credits != 0 {
		t.Errorf("%+v", f)
	}
	if f.posted = 10; f.maySend() {
		t.Error("a message without a credit")
	}
}

// Credits are granted for receives that are posted, as many as the peer asked for.
func TestGrants(t *testing.T) {
	f := flow{limit: 10, credits: 100, posted: 10}
	f.request(math.MaxUint16)
	if f.target != 10 || !f.due() || f.grant() != 10 || f.due() || f.mayPost() {
		t.Fatalf("%+v", f)
	}
	one := wire.Transfer{CreditsRequested: 10, CreditsGranted: 1}
	for i := range 10 {
		if f.due() {
			t.Fatalf("credits are due after %d messages, without a receive", i)
		}
		if err := f.received(&one); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.received(&one); !errors.Is(err, ErrProtocol) || f.credits != 110 {
		t.Errorf("a message without a credit: %v", err)
	}
	one.CreditsRequested = 4
	if f.request(4); !f.mayPost() {
		t.Error("no receive is posted")
	}
	if f.posted = 10; f.grant() != 4 || f.grant() != 0 || f.mayPost() {
		t.Errorf("%+v", f)
	}
	if f.request(0xffff); f.grant() != 6 {
		t.Errorf("%+v", f)
	}
	one.CreditsGranted = math.MaxUint16
	if err := f.received(&one); !errors.Is(err, ErrProtocol) {
		t.Errorf("too many credits: %v", err)
	}
}

// Two sides that only grant each other credits come to rest.
func TestGrantsComeToRest(t *testing.T) {
	sides := [2]flow{}
	for i := range sides {
		sides[i] = flow{limit: minCredits, credits: minCredits, posted: minCredits, granted: minCredits}
		sides[i].request(minCredits)
	}
	move := func(from, to *flow) {
		tr := wire.Transfer{CreditsRequested: minCredits, CreditsGranted: from.send()}
		if err := to.received(&tr); err != nil {
			t.Fatal(err)
		}
		for to.mayPost() {
			to.posted++
		}
	}
	for range 1000 {
		move(&sides[0], &sides[1]) // data
		for n := 0; sides[0].due() || sides[1].due(); n++ {
			if n > 2 {
				t.Fatalf("%+v", sides)
			}
			if sides[1].due() {
				move(&sides[1], &sides[0])
			} else {
				move(&sides[0], &sides[1])
			}
		}
	}
}

// A silent peer is asked once, and given up.
func TestIdle(t *testing.T) {
	now := time.Unix(1000, 0)
	i := idle{interval: 2 * time.Minute, response: 5 * time.Second}
	i.received(now)
	for _, s := range []struct {
		after time.Duration
		want  verdict
	}{{0, waiting}, {2*time.Minute - 1, waiting}, {1, ask}, {5*time.Second - 1, waiting}, {1, dead}} {
		if now = now.Add(s.after); i.check(now) != s.want {
			t.Fatalf("%v, want %v", now, s.want)
		}
	}
	i.received(now)
	if i.check(now.Add(2*time.Minute-1)) != waiting || i.check(now.Add(2*time.Minute)) != ask {
		t.Error("a message does not begin anew")
	}
}

// A peer sends any messages. No more is kept than arrived, and no more than the limit; the data that comes out is the
// data that was sent.
func FuzzReassembly(f *testing.F) {
	tr := wire.Transfer{CreditsRequested: 1, RemainingDataLength: 2}
	first := append(tr.AppendHeader(nil, 3), 1, 2, 3)
	tr.RemainingDataLength = 0
	last := append(tr.AppendHeader(nil, 2), 4, 5)
	frame := func(messages ...[]byte) (b []byte) {
		for _, m := range messages {
			b = append(append(b, byte(len(m))), m...)
		}
		return b
	}
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add(frame(first, last))
	f.Add(frame(first, tr.AppendHeader(nil, 0), last))
	f.Add(frame(first, first))
	f.Add(frame(last, last))
	f.Fuzz(func(t *testing.T, in []byte) {
		const limit = 64
		r := reassembly{limit: limit}
		var sent []byte
		for len(in) > 0 {
			n := min(int(in[0]), len(in)-1)
			b := in[1:][:n]
			in = in[1+n:]
			var tr wire.Transfer
			data, err := tr.Decode(b)
			if err != nil {
				return
			}
			m, err := r.add(&tr, data)
			if err != nil {
				if !errors.Is(err, ErrProtocol) {
					t.Fatal(err)
				}
				return
			}
			sent = append(sent, data...)
			if m != nil {
				if !bytes.Equal(m, sent) || len(m) > limit {
					t.Fatalf("%x, sent %x", m, sent)
				}
				sent = nil
			}
			if len(r.message) != len(sent) || len(r.message)+r.remaining > limit {
				t.Fatalf("%d bytes are kept, %d are missing", len(r.message), r.remaining)
			}
		}
	})
}

// Requests and responses of any contents are refused, or lead to limits within both sides' limits.
func FuzzNegotiation(f *testing.F) {
	o := Options{SendCredits: 10, RecvCredits: 20, MaxSendSize: 1000, MaxReceiveSize: 2000, MaxFragmentedSize: 1 << 20,
		MaxReadWriteSize: 1 << 20}
	q := request(&o)
	_, r, err := handleRequest(&o, q.Append(nil), &flow{limit: 20})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add(q.Append(nil))
	f.Add(r.Append(nil))
	r.CreditsGranted = 1
	f.Add(r.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, handle := range map[string]func(f *flow) (limits, error){
			"request": func(f *flow) (limits, error) {
				l, _, err := handleRequest(&o, b, f)
				return l, err
			},
			"response": func(f *flow) (limits, error) { return handleResponse(&o, b, f) },
		} {
			f := flow{limit: o.RecvCredits}
			l, err := handle(&f)
			if err != nil {
				if !errors.Is(err, ErrProtocol) && !errors.Is(err, ErrVersion) {
					t.Fatal(err)
				}
				continue
			}
			if l.send < wire.MinReceiveSize || l.send > o.MaxSendSize || l.receive < wire.MinReceiveSize ||
				l.receive > o.MaxReceiveSize || l.fragmented < wire.MinFragmentedSize || l.fragmented > maxSize ||
				l.readWrite < 0 || l.readWrite > maxSize || f.target < 1 || f.target > o.RecvCredits {
				t.Fatalf("%s: %+v, %+v", name, l, f)
			}
		}
	})
}

// Addresses without a port get one.
func TestPorts(t *testing.T) {
	for in, want := range map[string]string{"192.0.2.9": "192.0.2.9:445", "192.0.2.9:7": "192.0.2.9:7",
		"host": "host:445", "2001:db8::9": "[2001:db8::9]:445", "[2001:db8::9]": "[2001:db8::9]:445",
		"[2001:db8::9]:7": "[2001:db8::9]:7",
		"":                ":445", ":0": ":0"} {
		if got := withPort(in, Port); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if !strings.HasSuffix(withPort("a", PortIWARP), ":5445") {
		t.Error("iWARP")
	}
}
