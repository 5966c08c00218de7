// SPDX-License-Identifier: Apache-2.0

package rsocket

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
)

// end is an engine with memory, and the messages in flight to it.
type end struct {
	*Stream
	cfg      Config
	send     []byte
	mem      []byte // ring, then table: the peer's addresses count from base
	base     uint64
	queue    []delivery // posted by the peer, not arrived yet
	unsent   []uint64   // signaled posts whose completions were not given
	inFlight int        // posts without completion
	sent     []byte
	got      []byte
}

type delivery struct {
	msg     Message
	remote  Region
	payload []byte
}

func (e *end) table() []byte { return e.mem[e.cfg.RecvBuf:] }

// pair connects two engines.
func pair(t testing.TB, a, b Config) (x, y *end) {
	t.Helper()
	mk := func(c Config, base uint64) *end {
		c.Ring, c.Table = Region{base, uint32(base)}, Region{base + uint64(c.RecvBuf), uint32(base)}
		return &end{cfg: c, base: base, send: make([]byte, c.SendBuf), mem: make([]byte, c.RecvBuf+c.TableSize())}
	}
	x, y = mk(a, 1<<20), mk(b, 1<<40)
	told := func(e *end) *ConnData {
		var c ConnData
		c.Decode(e.cfg.ConnData().Append(nil))
		return &c
	}
	var err error
	if x.Stream, err = NewStream(x.cfg, told(y)); err != nil {
		t.Fatal(err)
	}
	if y.Stream, err = NewStream(y.cfg, told(x)); err != nil {
		t.Fatal(err)
	}
	return x, y
}

// post puts p on its way to the peer.
func (e *end) post(t testing.TB, peer *end, p *Post, data []byte) {
	t.Helper()
	payload := p.Inline[:p.NInline]
	if p.Len > 0 {
		payload = data
	}
	peer.queue = append(peer.queue, delivery{p.Msg, p.Remote, bytes.Clone(payload)})
	e.inFlight++
	if p.Signaled {
		e.unsent = append(e.unsent, p.ID)
	}
	if e.inFlight = int(e.Stream.send.posted - e.Stream.send.completed); e.inFlight > e.cfg.SendQueue {
		t.Fatalf("%d work requests in a queue of %d", e.inFlight, e.cfg.SendQueue)
	}
}

func (e *end) control(t testing.TB, peer *end) {
	var p Post
	for e.NextControl(&p) {
		e.post(t, peer, &p, nil)
	}
}

// probe asks whether the peer is there, if nothing is on its way that does.
func (e *end) probe(t testing.TB, peer *end) bool {
	t.Helper()
	var p Post
	if !e.Probe(&p) {
		return false
	}
	if !p.Signaled || p.Msg.Op() != OpWrite || p.Len > 0 || p.NInline > 0 {
		t.Errorf("a probe is %+v", p)
	}
	e.post(t, peer, &p, nil)
	return true
}

// write sends one message of at most n bytes, and the bytes staged before them, if it may.
func (e *end) write(t testing.TB, peer *end, n int, next func() byte) {
	if n > e.cfg.Inline || e.Staged() > 0 {
		e.stage(n, next)
		e.flush(t, peer)
		return
	}
	if n = min(n, e.InlineRoom()); n == 0 {
		return
	}
	data := e.make(n, next)
	var p Post
	e.SendInline(n, &p)
	e.post(t, peer, &p, data)
}

// stage puts n bytes into the ring, if they may go there.
func (e *end) stage(n int, next func() byte) {
	off, room := e.Room()
	if n = min(n, room); n <= 0 {
		return
	}
	for i, b := range e.make(n, next) {
		e.send[(off+i)%len(e.send)] = b
	}
	e.Stage(n)
}

// make makes n bytes that are to arrive.
func (e *end) make(n int, next func() byte) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = next()
	}
	e.sent = append(e.sent, data...)
	return data
}

// flush sends the staged bytes, which is always allowed.
func (e *end) flush(t testing.TB, peer *end) {
	t.Helper()
	var p Post
	if n := e.Staged(); !e.SendStaged(&p) {
		if n > 0 {
			t.Fatalf("%d bytes are staged and may not be sent", n)
		}
		return
	}
	data := make([]byte, p.Len)
	for i := range data {
		data[i] = e.send[(p.Off+i)%len(e.send)]
	}
	e.post(t, peer, &p, data)
}

// deliver lets the oldest post of the peer arrive.
func (e *end) deliver(t testing.TB) error {
	if len(e.queue) == 0 {
		return nil
	}
	d := e.queue[0]
	e.queue = e.queue[1:]
	if len(d.payload) > 0 {
		off := d.remote.Addr - e.base
		if off > uint64(len(e.mem)) || uint64(len(d.payload)) > uint64(len(e.mem))-off ||
			uint64(d.remote.Key) != e.base&0xffffffff {
			t.Fatalf("%v to %+v: not our memory", d.msg, d.remote)
		}
		copy(e.mem[off:], d.payload)
	}
	if d.msg.Op() == OpWrite {
		return nil
	}
	return e.HandleMessage(d.msg, len(d.payload) > 0, e.table())
}

func (e *end) read(n int) {
	off, avail := e.Readable()
	n = min(n, avail)
	e.got = append(e.got, e.mem[off:off+n]...)
	e.Consume(n)
}

func (e *end) complete() {
	if len(e.unsent) > 0 {
		e.HandleCompletion(e.unsent[0])
		e.unsent = e.unsent[1:]
	}
}

// TestStreams lets two engines of different sizes talk at random, both ways at once, and
// shut down: every byte arrives in order, and nothing is stuck.
func TestStreams(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 1))
		random := func() Config {
			return Config{SendBuf: 1 + rng.IntN(5000), SendQueue: CtrlSize + 1 + rng.IntN(40),
				RecvBuf: 2 * (1 + rng.IntN(3000)), Chunk: rng.IntN(2) * (1 + rng.IntN(3000)),
				Credits: 1 + rng.IntN(20), Inline: rng.IntN(100), IOMaps: rng.IntN(3)}
		}
		x, y := pair(t, random(), random())
		next := func() byte { return byte(rng.Uint32()) }
		check := func(err error) {
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		step := func(e, peer *end) {
			switch rng.IntN(5) {
			case 0:
				e.write(t, peer, 1+rng.IntN(2000), next)
			case 4:
				if e.stage(1+rng.IntN(2000), next); e.Full() {
					e.flush(t, peer)
				}
			case 1:
				check(e.deliver(t))
			case 2:
				e.read(1 + rng.IntN(2000))
			case 3:
				e.complete()
			}
			if rng.IntN(50) == 0 {
				e.probe(t, peer)
			}
			e.control(t, peer)
		}
		for range 3000 {
			step(x, y)
			step(y, x)
		}
		x.flush(t, y)
		y.flush(t, x)
		x.Shutdown()
		y.Shutdown()
		for i := 0; !x.Flushed() || !y.Flushed() || len(x.got) < len(y.sent) || len(y.got) < len(x.sent) || !x.EOF() ||
			!y.EOF(); i++ {
			if i > 5000 {
				t.Fatalf("seed %d: stuck: %+v, %+v", seed, x.Stream, y.Stream)
			}
			step(x, y)
			step(y, x)
		}
		if !bytes.Equal(x.got, y.sent) || !bytes.Equal(y.got, x.sent) {
			t.Fatalf("seed %d: what arrived is not what was sent", seed)
		}
		if !x.EOF() || !y.EOF() || x.PeerGone() || y.PeerGone() {
			t.Fatalf("seed %d: the end was not understood", seed)
		}
		if len(x.sent) < 100 || len(y.sent) < 100 {
			t.Fatalf("seed %d: only %d and %d bytes went through", seed, len(x.sent), len(y.sent))
		}
	}
}

var small = Config{SendBuf: 4096, SendQueue: 16, RecvBuf: 4096, Credits: 8, Inline: 64, IOMaps: 2}

// A peer that does not read gets two receive buffers full and no more.
func TestWindow(t *testing.T) {
	x, y := pair(t, small, small)
	y.control(t, x)
	x.deliver(t)
	for range 10 {
		x.write(t, y, 1000, func() byte { return 1 })
		y.deliver(t)
		y.control(t, x)
		x.complete()
		x.deliver(t)
	}
	if len(x.sent) != 4096 {
		t.Errorf("%d bytes were sent to a ring of 4096", len(x.sent))
	}
	y.read(2048)
	y.control(t, x)
	x.deliver(t)
	if n := x.InlineRoom(); n != 2048 {
		t.Errorf("room for %d bytes after half was read", n)
	}
}

// A peer that gives no credits gets as many messages as it said at first.
func TestCredits(t *testing.T) {
	x, y := pair(t, small, small)
	for range 20 {
		x.write(t, y, 1, func() byte { return 1 })
		x.complete()
	}
	if len(x.sent) != small.Credits {
		t.Errorf("%d messages with %d credits", len(x.sent), small.Credits)
	}
}

// Neither the end of the ring nor a single odd byte cuts data into small messages.
func TestFewMessages(t *testing.T) {
	x, y := pair(t, Config{SendBuf: 4096, SendQueue: 64, RecvBuf: 8192, Credits: 60},
		Config{RecvBuf: 8192, Credits: 60, SendQueue: 16, SendBuf: 1})
	size, messages := 1, 0
	for len(x.sent) < 100000 {
		before := len(x.sent)
		x.write(t, y, size, func() byte { return 1 })
		if size = 1000; len(x.sent) > before {
			messages++
		}
		for len(y.queue) > 0 {
			y.deliver(t)
		}
		y.read(8192)
		y.control(t, x)
		x.deliver(t)
		x.complete()
		y.complete()
	}
	if messages > 2*100 {
		t.Errorf("%d messages for 100000 bytes in writes of 1000", messages)
	}
}

// The sequence numbers have 16 bits.
func TestManyMessages(t *testing.T) {
	x, y := pair(t, small, small)
	for i := range 70000 {
		x.write(t, y, 1, func() byte { return byte(i) })
		for len(y.queue) > 0 {
			if err := y.deliver(t); err != nil {
				t.Fatal(i, err)
			}
		}
		y.read(1)
		y.control(t, x)
		x.deliver(t)
		x.complete()
		y.complete()
	}
	if len(x.sent) != 70000 || !bytes.Equal(x.sent, y.got) {
		t.Errorf("%d of %d bytes arrived", len(y.got), len(x.sent))
	}
}

func TestPeerBreaksProtocol(t *testing.T) {
	for name, m := range map[string]Message{"too much data": NewMessage(OpData, 2049),
		"huge": NewMessage(OpData, maxData)} {
		_, y := pair(t, small, small)
		if err := y.HandleMessage(m, true, y.table()); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, y := pair(t, small, small)
	for range small.Credits {
		if err := y.HandleMessage(NewMessage(OpData, 1), true, y.table()); err != nil {
			t.Fatal(err)
		}
	}
	if err := y.HandleMessage(NewMessage(OpData, 1), true, y.table()); !errors.Is(err, ErrProtocol) {
		t.Errorf("more messages than credits: %v", err)
	}
}

func TestMapped(t *testing.T) {
	x, y := pair(t, small, small)
	if x.PeerMaps() != 2 {
		t.Fatalf("the peer has %d entries", x.PeerMaps())
	}
	var p Post
	x.SendIOMap(1, IOMap{Offset: 100, SGE: SGE{0xabc000, 7, 50}}, &p)
	x.post(t, y, &p, nil)
	if err := y.deliver(t); err != nil {
		t.Fatal(err)
	}
	for off, want := range map[uint64]bool{0: false, 99: false, 100: true, 149: true, 150: false} {
		if _, ok := y.FindIOMap(y.table(), off); ok != want {
			t.Errorf("offset %d: %v", off, ok)
		}
	}
	m, _ := y.FindIOMap(y.table(), 120)
	if _, n := y.MappedRoom(); n == 0 {
		t.Fatal("no room")
	}
	y.WriteMapped(m, 120, 10, &p)
	if p.Remote != (Region{0xabc014, 7}) || p.Len != 10 || p.Msg.Op() != OpWrite {
		t.Errorf("%+v", p)
	}
}

func TestDisconnect(t *testing.T) {
	x, y := pair(t, small, small)
	x.write(t, y, 100, func() byte { return 1 })
	x.Disconnect()
	x.control(t, y)
	if x.Flushed() {
		t.Error("flushed before anything has completed")
	}
	for len(y.queue) > 0 {
		y.deliver(t)
	}
	for len(x.unsent) > 0 {
		x.complete()
	}
	if !x.Flushed() || !y.PeerGone() {
		t.Error("not flushed")
	}
	if y.read(1000); !bytes.Equal(y.got, x.sent) {
		t.Errorf("%d bytes of %d before the end", len(y.got), len(x.sent))
	}
	if n := y.InlineRoom(); n != 0 {
		t.Errorf("room for %d bytes to a peer that is gone", n)
	}
}

// A probe goes out when nothing else tells whether the peer is there, costs no credit, and
// is sent by a side that is half closed too.
func TestProbe(t *testing.T) {
	x, y := pair(t, small, small)
	x.write(t, y, 10, func() byte { return 1 }) // not signaled: nothing would be heard of it
	credits := x.Stream.send.seq
	if !x.probe(t, y) || x.probe(t, y) {
		t.Error("want one probe, and no other while it is on its way")
	}
	if x.complete(); x.Stream.send.posted != x.Stream.send.completed || x.Stream.send.seq != credits {
		t.Errorf("after the probe: %+v", x.Stream.send)
	}
	x.Shutdown()
	x.control(t, y)
	if x.probe(t, y) {
		t.Error("probes though the shutdown is on its way")
	}
	for len(x.unsent) > 0 {
		x.complete()
	}
	for len(y.queue) > 0 {
		y.deliver(t)
	}
	if !x.probe(t, y) || !y.probe(t, x) {
		t.Error("a connection that is half closed is not probed")
	}
	x.complete()
	y.complete()
	y.Disconnect()
	y.control(t, x)
	y.complete()
	for len(x.queue) > 0 {
		x.deliver(t)
	}
	if x.probe(t, y) || y.probe(t, x) {
		t.Error("probes behind a disconnect")
	}
}

// The tables of a big endian peer are written as it reads them.
func TestBigEndianPeer(t *testing.T) {
	x, _ := pair(t, small, small)
	peer := ConnData{Version: 1, Flags: FlagBigEndian, Credits: 8, Target: SGE{1 << 12, 1, 2},
		Data: SGE{1 << 13, 2, 1000}}
	s, err := NewStream(x.cfg, &peer)
	if err != nil {
		t.Fatal(err)
	}
	var p Post
	if !s.NextControl(&p) {
		t.Fatal("no receive buffer is offered")
	}
	var got SGE
	got.Get(p.Inline[:], binary.BigEndian)
	if want := (SGE{x.cfg.Ring.Addr + 2048, x.cfg.Ring.Key, 2048}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// While full messages are under way, and only then, there is something to wait for.
func TestBusy(t *testing.T) {
	x, y := pair(t, Config{SendBuf: 4096, SendQueue: 64, RecvBuf: 8192, Credits: 60, Chunk: 1000},
		Config{RecvBuf: 8192, Credits: 60, SendQueue: 16, SendBuf: 1})
	one := func() byte { return 1 }
	x.write(t, y, 400, one)
	if x.Busy() {
		t.Error("busy with a small message, of which nothing will be heard")
	}
	x.stage(2000, one)
	if x.Staged() != 1000 || !x.Full() {
		t.Errorf("%d bytes are staged for a message of 1000", x.Staged())
	}
	x.flush(t, y)
	if !x.Busy() || x.Staged() != 0 {
		t.Error("not busy with a full message")
	}
	x.complete()
	if x.Busy() {
		t.Error("busy though all has arrived")
	}
}

// TestTargetBeingWritten has the peer write an entry of the table, half of which is there, while a message comes that
// gives back credits only: the entry is taken with its own message.
func TestTargetBeingWritten(t *testing.T) {
	_, y := pair(t, small, small)
	slot := y.table()[y.Stream.send.slot*SGESize:][:SGESize]
	want := SGE{Addr: 0x7000, Key: 5, Length: 100}
	want.Put(slot, binary.LittleEndian)
	clear(slot[:8]) // the address
	credits := NewMessage(OpSGL, uint32(small.Credits))
	if err := y.HandleMessage(credits, false, y.table()); err != nil {
		t.Fatal(err)
	}
	if got := y.Stream.send.targets[1]; got != (SGE{}) {
		t.Fatalf("it has taken %+v", got)
	}
	want.Put(slot, binary.LittleEndian)
	if err := y.HandleMessage(credits, true, y.table()); err != nil {
		t.Fatal(err)
	}
	if got := y.Stream.send.targets[1]; got != want {
		t.Errorf("it has taken %+v, want %+v", got, want)
	}
}

// Messages that carry nothing of the ring leave its room alone: that a buffer is mapped, and that the peer is there.
func TestRoomOfTheRing(t *testing.T) {
	c := Config{SendBuf: 1000, SendQueue: 40, RecvBuf: 4000, Credits: 20, IOMaps: 2}
	x, y := pair(t, c, c)
	full := func() int {
		_, n := x.Room()
		return n
	}
	want := full()
	for range 3 {
		var p Post
		x.SendIOMap(0, IOMap{}, &p)
		x.HandleCompletion(p.ID)
		if x.probe(t, y) {
			x.HandleCompletion(x.Stream.send.posted)
		}
		if got := full(); got != want || x.Stream.send.used != 0 {
			t.Fatalf("room for %d bytes, %d used, want %d and none", got, x.Stream.send.used, want)
		}
	}
}

// Over a transport without immediate data a peer has receives for its credits and for as many control messages as
// may be in flight each way: the latter receives are taken off the credits, a quarter of them at most.
func TestSpareCredits(t *testing.T) {
	for credits, want := range map[int]int{4: 3, 20: 15, 32: 24, 33: 25, 100: 92} {
		c := Config{SendBuf: 1 << 12, SendQueue: 200, RecvBuf: 1 << 12, Credits: credits, Inline: 1, Sends: true}
		x, y := pair(t, c, c)
		sent := 0
		for x.InlineRoom() > 0 {
			x.write(t, y, 1, func() byte { return 1 })
			sent++
		}
		if sent != want {
			t.Errorf("%d messages with %d credits, want %d", sent, credits, want)
		}
	}
}
