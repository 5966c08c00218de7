// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/app/localca"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// opener opens devices of a kind. Devices that need certificates trust each other.
func opener(t *testing.T, kind *kinds.Kind) OpenFunc {
	t.Helper()
	if !kind.TLS {
		return func(name string) (*verbs.Device, error) { return kinds.Open(name, &kinds.Options{}) }
	}
	ca, err := localca.New()
	if err != nil {
		t.Fatal(err)
	}
	return func(name string) (*verbs.Device, error) {
		n, err := kinds.Parse(name)
		if err != nil {
			return nil, err
		}
		addr, _ := n.IP()
		config, err := ca.Config(addr)
		if err != nil {
			return nil, err
		}
		return kinds.Open(name, &kinds.Options{TLS: config})
	}
}

// twoSides connects both halves of a demo within this process. between changes the first
// one's messages.
func twoSides(t *testing.T, kind *kinds.Kind, between func(*message)) (*Demo, context.Context) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs more than one loopback address, which only Linux has from the start")
	}
	open := opener(t, kind)
	ctx, cancel := context.WithCancelCause(t.Context())
	fromFirst, toMiddle := io.Pipe()
	fromMiddle, toSecond := io.Pipe()
	fromSecond, toFirst := io.Pipe()
	go func() {
		dec, enc := json.NewDecoder(fromFirst), json.NewEncoder(toSecond)
		for {
			var m message
			if dec.Decode(&m) != nil {
				toSecond.Close()
				return
			}
			between(&m)
			enc.Encode(m)
		}
	}()
	served := make(chan error, 1)
	go func() {
		served <- Serve(context.Background(), fromMiddle, toFirst, open)
		toFirst.Close()
	}()
	names, err := (&Demo{Kind: kind}).deviceNames()
	if err != nil {
		t.Fatal(err)
	}
	dev, rest, err := openFirst(open, names)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		toMiddle.Close()
		<-served
		dev.Close()
		cancel(nil)
	})
	d := &Demo{Kind: kind, Recorded: true} // as little as with a recording
	if d.side, err = newSide(first, dev); err != nil {
		t.Fatal(err)
	}
	d.link = newLink(fromSecond, toMiddle, cancel)
	d.side.local.Candidates = rest
	return d, ctx
}

// TestInProcess runs the demo over each kind of device with both halves in this process, for
// the race detector.
func TestInProcess(t *testing.T) {
	for name, rows := range map[string]int{"roce": 13, "iwarp": 9, "iwarps": 9, "iwarp+sctp": 9} {
		t.Run(name, func(t *testing.T) {
			kind, err := kinds.Find(name)
			if err != nil {
				t.Fatal(err)
			}
			d, ctx := twoSides(t, kind, func(*message) {})
			report, err := d.talk(ctx, d.side.local.Candidates)
			if err != nil {
				t.Fatal(err)
			}
			if len(report.Rows) != rows || report.Verified() < 12<<20 {
				t.Errorf("%d rows, %d bytes verified", len(report.Rows), report.Verified())
			}
			over := []string{name, TCP}
			if d.shared != nil {
				over = []string{SharedMemory, name, TCP}
			}
			var got []string
			for _, s := range report.Speed {
				got = append(got, s.Over)
				if s.RoundTrip <= 0 || s.BytesPerSecond <= 0 {
					t.Errorf("%+v", s)
				}
			}
			if !slices.Equal(got, over) {
				t.Errorf("speeds over %q, want %q", got, over)
			}
		})
	}
}

// TestNotices makes the two halves disagree on the data of one step, in one bit of the
// pattern: each of both must notice.
func TestNotices(t *testing.T) {
	for _, op := range []verbs.SendOp{verbs.OpSend, verbs.OpSendImm, verbs.OpWriteImm, verbs.OpRead,
		verbs.OpCompareSwap, verbs.OpFetchAdd} {
		t.Run(opName(op), func(t *testing.T) {
			d, ctx := twoSides(t, kinds.Default(), func(m *message) {
				if m.Step != nil && m.Step.Op == op {
					m.Step.Seed ^= 1
				}
			})
			report, err := d.talk(ctx, d.side.local.Candidates)
			if err == nil {
				t.Fatalf("nothing was noticed: %+v", report)
			}
			if !strings.Contains(err.Error(), opName(op)) || !strings.Contains(err.Error(), "instead of") {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestVerify changes one byte behind the demo's back.
func TestVerify(t *testing.T) {
	d, ctx := twoSides(t, kinds.Default(), func(*message) {})
	if _, err := d.talk(ctx, d.side.local.Candidates); err != nil {
		t.Fatal(err)
	}
	st := step{Op: verbs.OpSend, QP: verbs.RC, Size: smallSize, Count: 10, Seed: randomPattern()}
	if _, _, err := d.step(ctx, &st); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		mr   *verbs.MR
		off  int
		text string
	}{
		{"landed", d.side.in, 333, "byte 333 of 640"},
		{"behind", d.side.in, 640, "behind the buffer"},
		{"source", d.side.out, 639, "the source changed: byte 639 of 640"},
	} {
		c.mr.Do(func(b []byte) { b[c.off] ^= 0x10 })
		if _, err := d.side.verify(&st); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %q", c.name, err, c.text)
		}
		c.mr.Do(func(b []byte) { b[c.off] ^= 0x10 })
	}
	if _, err := d.side.verify(&st); err != nil {
		t.Error(err)
	}
}

func TestLinkEnds(t *testing.T) {
	r, w := io.Pipe()
	var gone error
	ended := make(chan struct{})
	l := newLink(r, io.Discard, func(err error) { gone = err; close(ended) })
	w.Close()
	<-ended
	if _, err := l.receive(t.Context(), nil); !errors.Is(err, errPeerGone) || !errors.Is(gone, errPeerGone) {
		t.Errorf("%v, %v", err, gone)
	}
}
