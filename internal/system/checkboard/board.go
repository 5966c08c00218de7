// SPDX-License-Identifier: Apache-2.0

package checkboard

import (
	"encoding/binary"
	"hash/fnv"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

const (
	slots = 4096
	// words is the length of a slot in words of 8 bytes.
	words = 8
	// size is the length of the memory of a board.
	size = (slots*words + maxConnections) * 8
	// maxOthers is how many boards of other processes are read.
	maxOthers = 64
	// looks is how many operations of a board are looked through: the last ones.
	looks = 1024
	// maxConnections is how many connections a board tells of, at most, and ways is how many of them have the same
	// places.
	maxConnections = 1024
	ways           = 8
	// eager is how many calls of Refresh look for new boards, and pause is the time between later looks.
	eager = 64
	pause = time.Second
)

// Noticed in an operation's Op says that its target has noticed it, and not that it was posted.
const Noticed = 1 << 7

// Operation is an operation of a queue pair: a one-sided one, or a message, whose address is its number.
type Operation struct {
	Op           uint8
	Source, Dest uint32   // queue pair numbers, 24 bits
	GID          [16]byte // of the destination
	Key, Length  uint32
	Addr         uint64
}

// Connection is two queue pairs that are connected, of which the destination is the board's.
type Connection struct {
	Source, Dest uint32   // queue pair numbers, 24 bits
	GID          [16]byte // of the source
}

// Board is the page where a process tells others, and others tell it. Its methods may be called by several goroutines
// at once.
type Board struct {
	posting sync.Mutex // of the fields that follow
	own     *memory
	last    uint64 // operations that were posted
	turn    int    // whose place the next connection gets where all are taken

	reading sync.Mutex         // of the fields that follow; held while files are read
	others  map[string]*memory // by the name of the socket; nil: it is its own, or cannot be read
	calls   int
	at      time.Time // of the last refresh

	start time.Time
	clock uint64 // of the host as start was, in nanoseconds
	slack uint64 // how much later it may have been
	close func()
}

// memory is that of a board. The first word of a slot is the number of the operation there, 0 while it is written.
type memory struct {
	operations  [slots][words]uint64
	connections [maxConnections / ways][ways]uint64 // digests, each in one of its places; 0: nothing is there
}

// digest stands for a connection.
func (c *Connection) digest() uint64 {
	h := fnv.New64a()
	var b [24]byte
	binary.BigEndian.PutUint32(b[:], c.Source)
	binary.BigEndian.PutUint32(b[4:], c.Dest)
	copy(b[8:], c.GID[:])
	h.Write(b[:])
	return h.Sum64()
}

// slot has the words of an operation behind its number and its time.
func (o *Operation) slot() (w [words - 2]uint64) {
	w[0] = uint64(o.Op)<<48 | uint64(o.Source&0xffffff)<<24 | uint64(o.Dest&0xffffff)
	w[1] = uint64(o.Key)<<32 | uint64(o.Length)
	w[2] = o.Addr
	w[3] = binary.BigEndian.Uint64(o.GID[:8])
	w[4] = binary.BigEndian.Uint64(o.GID[8:])
	return w
}

// Now returns the time of the host's monotonic clock in nanoseconds, or a time a little earlier.
func (b *Board) Now() uint64 { return b.after(time.Since(b.start)) }

// At returns the time of the host's monotonic clock at a time of this process, or a little earlier.
func (b *Board) At(t time.Time) uint64 { return b.after(t.Sub(b.start)) }

func (b *Board) after(d time.Duration) uint64 { return b.clock + uint64(max(0, d)) }

// Post tells the others of an operation that is about to be posted at a time, which others may take for a little later.
func (b *Board) Post(o *Operation, at uint64) {
	b.posting.Lock()
	defer b.posting.Unlock()
	b.last++
	s := &b.own.operations[b.last%slots]
	atomic.StoreUint64(&s[0], 0)
	atomic.StoreUint64(&s[1], at+b.slack)
	for i, v := range o.slot() {
		atomic.StoreUint64(&s[2+i], v)
	}
	atomic.StoreUint64(&s[0], b.last)
}

// Connect records a connection for other processes. If there is no place, an older connection goes.
func (b *Board) Connect(c *Connection) {
	d := c.digest()
	b.posting.Lock()
	defer b.posting.Unlock()
	places := b.own.places(d)
	for i := range places {
		if had := atomic.LoadUint64(&places[i]); had == 0 || had == d {
			atomic.StoreUint64(&places[i], d)
			return
		}
	}
	b.turn++
	atomic.StoreUint64(&places[b.turn%ways], d)
}

// places are the slots in which the digest of a connection may be.
func (m *memory) places(d uint64) *[ways]uint64 { return &m.connections[d%uint64(len(m.connections))] }

func (m *memory) connected(c *Connection) bool {
	d := c.digest()
	places := m.places(d)
	for i := range places {
		if atomic.LoadUint64(&places[i]) == d {
			return true
		}
	}
	return false
}

// Noticed returns when another process, which has the destination of a connection, has told of an operation, after one
// time and before another. It returns 0 if it is not known.
func (b *Board) Noticed(o *Operation, c *Connection, after, before uint64) (at uint64) {
	b.reading.Lock()
	defer b.reading.Unlock()
	want := o.slot()
	for _, m := range b.others {
		if m != nil && m.connected(c) {
			at = max(at, m.posted(&want, after, before))
		}
	}
	return at
}

// Posted returns when another process has posted an operation, or the last one like it, after one time and before
// another. It returns 0 if it is not known.
func (b *Board) Posted(o *Operation, after, before uint64) (at uint64) {
	b.reading.Lock()
	defer b.reading.Unlock()
	want := o.slot()
	for _, m := range b.others {
		if m == nil {
			continue
		}
		at = max(at, m.posted(&want, after, before))
	}
	return at
}

func (m *memory) posted(want *[words - 2]uint64, after, before uint64) uint64 {
	last := uint64(0)
	for i := range m.operations {
		last = max(last, atomic.LoadUint64(&m.operations[i][0]))
	}
	for n := last; n > 0 && n+looks > last; n-- {
		s := &m.operations[n%slots]
		if atomic.LoadUint64(&s[0]) != n {
			continue
		}
		at := atomic.LoadUint64(&s[1])
		same := true
		for i := range want {
			same = same && atomic.LoadUint64(&s[2+i]) == want[i]
		}
		if atomic.LoadUint64(&s[0]) != n || !same || at >= before {
			continue
		}
		if at <= after {
			return 0
		}
		return at
	}
	return 0
}

// Refresh looks for boards of other processes. It is called as a connection is made: the peer has its board by then.
// Where there are very many connections it looks once a second.
func (b *Board) Refresh() {
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.calls++; b.calls > eager && time.Since(b.at) < pause {
		return
	}
	b.at = time.Now()
	b.find()
}

// Close ends the board. Mapped memory stays.
func (b *Board) Close() { b.close() }

// view is a board in memory of its length.
func view(mem []byte) *memory { return (*memory)(unsafe.Pointer(unsafe.SliceData(mem))) }
