// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

func TestDemo(t *testing.T) {
	testDevice(t) // skips where there are not enough addresses
	r := ramjetCmd(t, "demo")
	r.wantSuccess(t)
	if r.stderr != "" {
		t.Errorf("standard error: %q", r.stderr)
	}
	if strings.Contains(r.stdout, "\x1b") {
		t.Error("escape sequences although there is no terminal")
	}
	for _, want := range []string{
		`^Two processes, roce:127\.\d+\.\d+\.1 and roce:127\.\d+\.\d+\.2, over RoCEv2`,
		`(?m)^operation +transport +size +verified in both +round trip +TCP +bandwidth +TCP`,
		`(?m)^SEND +RC +64 B +[1-9]\d*00 × 64 B, all bytes +(busy\? )?\d+\.\d µs +(busy\? )?\d+\.\d µs *$`,
		`(?m)^SEND with immediate +RC +64 B`,
		`(?m)^WRITE +RC +64 B`,
		`(?m)^WRITE with immediate +RC +64 B`,
		`(?m)^READ +RC +64 B`,
		`(?m)^compare-and-swap +RC +8 B`,
		`(?m)^fetch-and-add +RC +8 B`,
		`(?m)^SEND +UC +64 B`,
		`(?m)^WRITE +UC +64 B`,
		`(?m)^SEND +UD +64 B`,
		`(?m)^SEND +RC +1 MiB +\d+ × 1 MiB, all bytes +(busy\? )?\d+\.\d\d GB/s +(busy\? )?\d+\.\d\d GB/s *$`,
		`(?m)^WRITE +RC +1 MiB`,
		`(?m)^READ +RC +1 MiB`,
		`(?m)^13 operations moved .* both compared every byte: no error\.$`,
		`(?m)^Next: `,
	} {
		if !regexp.MustCompile(want).MatchString(r.stdout) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
}

func TestDemoRecorded(t *testing.T) {
	testDevice(t)
	file := filepath.Join(t.TempDir(), "demo.pcapng")
	r := ramjetCmd(t, "demo", "--json", "--pcap", file)
	r.wantSuccess(t)
	var report demoReport
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		t.Fatalf("%v:\n%s", err, r.stdout)
	}
	if !report.Recorded || len(report.Rows) != 13 || report.PathMTU != 4096 {
		t.Errorf("%+v", report)
	}
	for _, row := range report.Rows {
		stream := row.Size == streamSize
		if row.VerifiedBytes < int64(row.Messages*row.Size) || row.Messages == 0 || stream != (row.BytesPerSecond > 0) ||
			stream != (row.TCPBytesPerSecond > 0) || stream == (row.RoundTripUs > 0) || stream == (row.TCPRoundTripUs > 0) {
			t.Errorf("%+v", row)
		}
	}
	frames := verifyRecording(t, file)
	if frames < 4000 {
		t.Errorf("%d frames recorded, want at least those of 12 MiB", frames)
	}
	said := regexp.MustCompile(`: (\d+) packets written, \d+ left out\n$`).FindStringSubmatch(r.stderr)
	if said == nil || said[1] != jsonNumber(frames) {
		t.Errorf("standard error %q, and %d frames are in the file", r.stderr, frames)
	}
}

// Figures of processes that had to wait for a processor are marked, and explained.
func TestDemoDisturbed(t *testing.T) {
	for _, c := range []struct {
		shortest, median time.Duration
		stream, want     bool
	}{
		{6 * time.Microsecond, 9 * time.Microsecond, false, false},
		{6 * time.Microsecond, 40 * time.Microsecond, false, true},
		{4 * time.Millisecond, 7 * time.Millisecond, false, true},
		{8 * time.Millisecond, 9 * time.Millisecond, true, false},
		{8 * time.Millisecond, 50 * time.Millisecond, true, true},
	} {
		if got := disturbed(c.shortest, c.median, c.stream); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	r := demoReport{Rows: []demoRow{{Operation: "SEND", Size: 64, RoundTripUs: 8, TCPRoundTripUs: 7}}}
	if text := r.table(false) + r.summary(); strings.Contains(text, "busy") {
		t.Errorf("an idle machine is called busy:\n%s", text)
	}
	r.Rows[0].Disturbed = true
	if text := r.table(false) + r.summary(); !strings.Contains(text, "busy? 8.0 µs ") || strings.Contains(text, "busy? 7") || !strings.Contains(text, "mean nothing") {
		t.Errorf("the marks of a busy machine:\n%s", text)
	}
}

func jsonNumber(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

// verifyRecording reads a recording of IPv4 packets, verifies the ICRC of each, with the
// identification of its IP header, and returns how many there are.
func verifyRecording(t *testing.T, file string) (frames int) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const enhancedPacket = 6
	for len(b) >= 12 {
		typ, n := binary.LittleEndian.Uint32(b), int(binary.LittleEndian.Uint32(b[4:]))
		if n < 12 || n > len(b) {
			t.Fatalf("a block of %d bytes, %d are left", n, len(b))
		}
		if typ == enhancedPacket {
			frames++
			ip := b[28:][:binary.LittleEndian.Uint32(b[20:])]
			src, _ := netip.AddrFromSlice(ip[12:16])
			dst, _ := netip.AddrFromSlice(ip[16:20])
			udp := ip[20:]
			flow := ib.NewFlow(netip.AddrPortFrom(src, binary.BigEndian.Uint16(udp)),
				netip.AddrPortFrom(dst, binary.BigEndian.Uint16(udp[2:])), ip[6]&0x40 != 0)
			if _, how := flow.Verify(udp[8:], binary.BigEndian.Uint16(ip[4:])); how != ib.VerifiedWhole {
				t.Fatalf("frame %d: the ICRC is wrong", frames)
			}
		}
		b = b[n:]
	}
	if len(b) != 0 {
		t.Errorf("%d bytes at the end", len(b))
	}
	return frames
}

// twoSides connects both halves of a demo within this process. between changes what the
// first one asks.
func twoSides(t *testing.T, between func(*message)) (*demo, context.Context) {
	t.Helper()
	testDevice(t)
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
		served <- serveDemo(context.Background(), fromMiddle, toFirst)
		toFirst.Close()
	}()
	addrs, err := demoAddresses()
	if err != nil {
		t.Fatal(err)
	}
	dev, err := openFirst("roce", addrs, "", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		toMiddle.Close()
		<-served
		dev.Close()
		cancel(nil)
	})
	d := &demo{log: io.Discard, kind: "roce", pcap: "as little as with a recording"}
	if d.side, err = newSide(first, dev.Device); err != nil {
		t.Fatal(err)
	}
	d.pipe = newPipe(fromSecond, toMiddle, cancel)
	d.side.local.Candidates, d.side.local.Kind = dev.rest, "roce"
	return d, ctx
}

// TestDemoInProcess runs the demo with both halves in this process, for the race detector.
func TestDemoInProcess(t *testing.T) {
	d, ctx := twoSides(t, func(*message) {})
	report, err := d.talk(ctx, d.side.local.Candidates)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Rows) != 13 || report.verified() < 12<<20 {
		t.Errorf("%d rows, %d bytes verified", len(report.Rows), report.verified())
	}
}

// TestDemoNotices makes the two halves disagree on the data of one step, in one bit of the
// pattern: each of both must notice.
func TestDemoNotices(t *testing.T) {
	for _, op := range []verbs.SendOp{verbs.Send, verbs.SendImm, verbs.WriteImm, verbs.Read, verbs.CompareSwap, verbs.FetchAdd} {
		t.Run(opName(op), func(t *testing.T) {
			d, ctx := twoSides(t, func(m *message) {
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
	d, ctx := twoSides(t, func(*message) {})
	if _, err := d.talk(ctx, d.side.local.Candidates); err != nil {
		t.Fatal(err)
	}
	st := step{Op: verbs.Send, QP: verbs.RC, Size: smallSize, Count: 10, Seed: randomPattern()}
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

func TestDemoPeerAlone(t *testing.T) {
	r := ramjetCmd(t, demoPeerName) // its standard input is empty
	if r.status != 0 || r.stdout != "" || r.stderr != "" {
		t.Errorf("%+v", r)
	}
}

func TestPipeEnds(t *testing.T) {
	r, w := io.Pipe()
	var gone error
	ended := make(chan struct{})
	p := newPipe(r, io.Discard, func(err error) { gone = err; close(ended) })
	w.Close()
	<-ended
	if _, err := p.receive(t.Context(), nil); !errors.Is(err, errPeerGone) || !errors.Is(gone, errPeerGone) {
		t.Errorf("%v, %v", err, gone)
	}
}
