// SPDX-License-Identifier: Apache-2.0

package trace_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ramjet-rdma/ramjet/trace"
)

func newWriter(t testing.TB, out io.Writer) *trace.Writer {
	t.Helper()
	w, err := trace.NewWriter(out, "roce:127.0.0.2")
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func header4() *trace.UDP {
	return &trace.UDP{
		At:        time.Unix(1_700_000_000, 123_456_789),
		Src:       netip.MustParseAddrPort("127.0.0.1:49152"),
		Dst:       netip.MustParseAddrPort("127.0.0.2:4791"),
		TTL:       64,
		Direction: trace.Outbound,
	}
}

func record(t *testing.T, write func(w *trace.Writer)) recording {
	t.Helper()
	var out bytes.Buffer
	w := newWriter(t, &out)
	write(w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return readRecording(t, out.Bytes())
}

func TestHead(t *testing.T) {
	r := record(t, func(*trace.Writer) {})
	if got := le32(r.section.fixed); got != 0x1a2b3c4d {
		t.Errorf("byte-order magic %#x", got)
	}
	if got := le32(r.section.fixed[4:]); got != 1 {
		t.Errorf("version %#x, want 1.0", got)
	}
	if got := le32(r.iface.fixed) & 0xffff; got != 101 {
		t.Errorf("link type %d, want 101 (raw IP)", got)
	}
	if name, _ := r.iface.option(2); name != "roce:127.0.0.2" {
		t.Errorf("interface name %q", name)
	}
	if resolution, _ := r.iface.option(9); resolution != "\x09" {
		t.Errorf("timestamp resolution %q, want 9", resolution)
	}
}

func TestOptions(t *testing.T) {
	for _, tt := range []struct {
		direction trace.Direction
		comment   string
		flags     string
	}{
		{0, "", ""},
		{trace.Inbound, "", "\x01\x00\x00\x00"},
		{trace.Outbound, "a", "\x02\x00\x00\x00"},
		{0, "ab", ""},
		{trace.Inbound, "abc", "\x01\x00\x00\x00"},
		{trace.Inbound, "abcd", "\x01\x00\x00\x00"},
		{trace.Outbound, string(make([]byte, 65535)), "\x02\x00\x00\x00"},
	} {
		h := header4()
		h.Direction, h.Comment = tt.direction, tt.comment
		r := record(t, func(w *trace.Writer) {
			if err := w.WriteUDP(h, make([]byte, 17)); err != nil {
				t.Fatal(err)
			}
		})
		p := r.packets[0]
		flags, _ := p.option(2)
		comment, _ := p.option(1)
		if flags != tt.flags || comment != tt.comment {
			t.Errorf("direction %d, comment %.4q: flags %q, comment %.4q", tt.direction, tt.comment, flags, comment)
		}
		if !p.at.Equal(h.At) {
			t.Errorf("time %v, want %v", p.at, h.At)
		}
	}
}

func TestRefused(t *testing.T) {
	v4, v6 := netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("[::1]:2")
	for name, tt := range map[string]struct {
		src, dst netip.AddrPort
		payload  int
		comment  int
		ok       bool
	}{
		"families differ":         {src: v4, dst: v6},
		"no source":               {dst: v4},
		"no destination":          {src: v6},
		"no addresses":            {},
		"longest over IPv4":       {src: v4, dst: v4, payload: 65507, comment: 65535, ok: true},
		"too long for IPv4":       {src: v4, dst: v4, payload: 65508},
		"longest over IPv6":       {src: v6, dst: v6, payload: 65527, comment: 65535, ok: true},
		"too long for IPv6":       {src: v6, dst: v6, payload: 65528},
		"too long a comment":      {src: v4, dst: v4, comment: 65536},
		"mapped is IPv4":          {src: netip.MustParseAddrPort("[::ffff:127.0.0.1]:1"), dst: v4, ok: true},
		"too long a mapped one's": {src: netip.MustParseAddrPort("[::ffff:127.0.0.1]:1"), dst: v4, payload: 65508},
	} {
		t.Run(name, func(t *testing.T) {
			r := record(t, func(w *trace.Writer) {
				h := header4()
				h.Src, h.Dst, h.Comment = tt.src, tt.dst, string(make([]byte, tt.comment))
				if err := w.WriteUDP(h, make([]byte, tt.payload)); (err == nil) != tt.ok {
					t.Errorf("error %v, want none: %t", err, tt.ok)
				}
			})
			if got := len(r.packets) == 1; got != tt.ok {
				t.Errorf("recorded: %t, want %t", got, tt.ok)
			}
		})
	}
	if _, err := trace.NewWriter(io.Discard, string(make([]byte, 65536))); err == nil {
		t.Error("an interface name of 65,536 bytes was taken")
	}
}

func TestClose(t *testing.T) {
	var out bytes.Buffer
	w := newWriter(t, &out)
	for range 2 {
		if err := w.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if err := w.WriteUDP(header4(), []byte("late")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("WriteUDP after Close: %v, want fs.ErrClosed", err)
	}
	if err := w.Flush(); err != nil {
		t.Errorf("Flush after Close: %v", err)
	}
	r := readRecording(t, out.Bytes())
	if got := r.statistics.number64(t, 4); got != 0 {
		t.Errorf("statistics have %d packets, want 0", got)
	}
}

// sharedFile may be read while a Writer writes to it.
type sharedFile struct {
	mu sync.Mutex
	b  []byte
}

func (f *sharedFile) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.b = append(f.b, b...)
	return len(b), nil
}

func (f *sharedFile) packets(t *testing.T) int {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(readRecording(t, f.b).packets)
}

// A lone packet is written without a Flush, after a pause in which others can
// join it.
func TestWrittenWithoutFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out sharedFile
		w := newWriter(t, &out)
		for want := range 3 {
			synctest.Wait()
			if got := out.packets(t); got != want {
				t.Errorf("%d packets in the file, want %d", got, want)
			}
			if err := w.WriteUDP(header4(), []byte("payload")); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got := out.packets(t); got != want {
				t.Errorf("%d packets in the file before the pause, want %d", got, want)
			}
			time.Sleep(time.Second)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Many packets are written without a pause.
func TestBusyWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out sharedFile
		w := newWriter(t, &out)
		for range 10 {
			if err := w.WriteUDP(header4(), make([]byte, 60_000)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if got := out.packets(t); got < 4 {
			t.Errorf("%d of 10 packets in the file at once", got)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
}

// gate is a file on a disk that stalls.
type gate struct {
	bytes.Buffer
	open chan struct{}
}

func (g *gate) Write(b []byte) (int, error) {
	<-g.open
	return g.Buffer.Write(b)
}

// With a disk that stalls, packets are left out, none waits, and the file says
// how many are missing and where.
func TestStalledDisk(t *testing.T) {
	open := make(chan struct{})
	close(open)
	g := &gate{open: open}
	w := newWriter(t, g)
	g.open = make(chan struct{})

	h, payload := header4(), make([]byte, 60_000)
	write := func() {
		t.Helper()
		if err := w.WriteUDP(h, payload); err != nil {
			t.Fatal(err)
		}
		h.ID++
	}
	const sent = 600 // 36 MB: twice as much as a Writer holds
	for range sent {
		write()
	}
	early := w.Dropped()
	if early == 0 || early > sent/2+100 {
		t.Errorf("%d of %d packets left out", early, sent)
	}
	close(g.open)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	write()
	write()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	r := readRecording(t, g.Bytes())
	if got, want := uint64(len(r.packets)), sent+2-early; got != want {
		t.Fatalf("%d packets in the file, want %d", got, want)
	}
	gap := len(r.packets) - 2
	for i, p := range r.packets {
		id := uint64(i)
		if i >= gap {
			id += early
		}
		if got := uint64(binary.BigEndian.Uint16(p.data[4:])); got != id {
			t.Errorf("packet %d in the file is number %d, want %d", i, got, id)
		}
		if i == gap {
			if missing := p.number64(t, 4); missing != early {
				t.Errorf("the packet after the gap says that %d are missing, want %d", missing, early)
			}
		} else if _, ok := p.option(4); ok {
			t.Errorf("packet %d says that some are missing before it", i)
		}
	}
	if got := r.statistics.number64(t, 4); got != sent+2 {
		t.Errorf("statistics have %d packets, want %d", got, sent+2)
	}
	if got := r.statistics.number64(t, 5); got != early {
		t.Errorf("statistics have %d left out, want %d", got, early)
	}
}

// failing takes some writes, then none.
type failing struct {
	writes int
	short  bool
}

var errDisk = errors.New("disk full")

func (f *failing) Write(b []byte) (int, error) {
	f.writes--
	switch {
	case f.writes >= 0:
		return len(b), nil
	case f.short:
		return len(b) - 1, nil
	}
	return 0, errDisk
}

func TestWriteFails(t *testing.T) {
	for name, tt := range map[string]struct {
		short bool
		want  error
	}{
		"error": {false, errDisk},
		"short": {true, io.ErrShortWrite},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := trace.NewWriter(&failing{short: tt.short}, ""); !errors.Is(err, tt.want) {
				t.Errorf("NewWriter: %v, want %v", err, tt.want)
			}
			w := newWriter(t, &failing{writes: 1, short: tt.short})
			if err := w.WriteUDP(header4(), []byte("payload")); err != nil {
				t.Errorf("WriteUDP before the failure: %v", err)
			}
			if err := w.Flush(); !errors.Is(err, tt.want) {
				t.Errorf("Flush: %v, want %v", err, tt.want)
			}
			if err := w.WriteUDP(header4(), []byte("payload")); !errors.Is(err, tt.want) {
				t.Errorf("WriteUDP: %v, want %v", err, tt.want)
			}
			if err := w.Close(); !errors.Is(err, tt.want) {
				t.Errorf("Close: %v, want %v", err, tt.want)
			}
		})
	}
}

func TestConcurrent(t *testing.T) {
	const writers, each = 8, 200
	r := record(t, func(w *trace.Writer) {
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				for i := range each {
					if err := w.WriteUDP(header4(), make([]byte, i)); err != nil {
						t.Error(err)
					}
					if i%50 == 0 {
						if err := w.Flush(); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		wg.Wait()
	})
	lengths := make(map[int]int)
	for _, p := range r.packets {
		lengths[len(p.data)-28]++
	}
	for i := range each {
		if lengths[i] != writers {
			t.Errorf("%d packets of %d bytes, want %d", lengths[i], i, writers)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	w := newWriter(t, io.Discard)
	defer w.Close()
	h, bth, data := header4(), make([]byte, 12), make([]byte, 1028)
	got := testing.AllocsPerRun(1000, func() {
		if err := w.WriteUDP(h, bth, data); err != nil {
			t.Fatal(err)
		}
	})
	if got != 0 {
		t.Errorf("%v allocations a packet, want 0", got)
	}
}

func BenchmarkWriteUDP(b *testing.B) {
	for name, src := range map[string]string{"IPv4": "127.0.0.1:49152", "IPv6": "[::1]:49152"} {
		b.Run(name, func(b *testing.B) {
			w := newWriter(b, io.Discard)
			defer w.Close()
			h, bth, data := header4(), make([]byte, 12), make([]byte, 4100)
			h.Src = netip.MustParseAddrPort(src)
			h.Dst = h.Src
			b.ReportAllocs()
			b.SetBytes(int64(len(bth) + len(data)))
			for b.Loop() {
				if err := w.WriteUDP(h, bth, data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
