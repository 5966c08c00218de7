// SPDX-License-Identifier: Apache-2.0

package shmem

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const patience = 2 * time.Minute

func create(t *testing.T, size int, peers Rights) *Segment {
	t.Helper()
	s, err := Create("ramjet-test", size, peers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// again returns another descriptor of a segment, as a peer has it.
func again(t *testing.T, s *Segment, how int) *os.File {
	t.Helper()
	f, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", s.File().Fd()), how, 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestReadOnly has a peer read what the owner wrote, and try to write to it by all ways.
func TestReadOnly(t *testing.T) {
	s := create(t, 100, ReadOnly)
	copy(s.Bytes(), "hello")
	p, err := Map(again(t, s, os.O_RDWR), 100, ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if !bytes.HasPrefix(p.Bytes(), []byte("hello")) {
		t.Errorf("the peer sees %q", p.Bytes()[:5])
	}
	if w, err := Map(again(t, s, os.O_RDWR), 100, ReadWrite); !errors.Is(err, unix.EPERM) {
		t.Errorf("the peer maps it to write to it: %v, %v", w, err)
	}
	if err := unix.Mprotect(p.Bytes(), unix.PROT_READ|unix.PROT_WRITE); !errors.Is(err, unix.EACCES) {
		t.Errorf("the peer makes its mapping writable: %v", err)
	}
	f := again(t, s, os.O_RDWR)
	defer f.Close()
	if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("the peer writes to the file: %v", err)
	}
	for what, err := range map[string]error{"shorter": f.Truncate(0), "longer": f.Truncate(1 << 20),
		"with a hole": unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 4096)} {
		if !errors.Is(err, unix.EPERM) {
			t.Errorf("the peer makes it %s: %v", what, err)
		}
	}
	s.Bytes()[0] = 'j'
	if p.Bytes()[0] != 'j' {
		t.Error("the owner cannot write any more, or the peer does not see it")
	}
}

// TestMapRefuses hands over what could vanish.
func TestMapRefuses(t *testing.T) {
	fd, err := unix.MemfdCreate("unsealed", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "unsealed")
	if err := f.Truncate(4096); err != nil {
		t.Fatal(err)
	}
	if _, err := Map(f, 1, ReadWrite); !errors.Is(err, errUnsealed) {
		t.Errorf("a file that is not sealed: %v", err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Map(null, 1, ReadOnly); err == nil {
		t.Error("a device is mapped")
	}
	if err := null.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the descriptor was left open: %v", err)
	}
	s := create(t, 1, ReadWrite)
	if _, err := Map(again(t, s, os.O_RDWR), 1<<20, ReadWrite); err == nil {
		t.Error("a segment that is too small is mapped")
	}
}

// TestRing sends messages of all lengths from one goroutine to another, which sleep whenever there is
// nothing to do.
func TestRing(t *testing.T) {
	const capacity, messages = 1024, 20000
	seg := create(t, RingSize(capacity), ReadWrite)
	s, err := NewSender(seg.Bytes(), capacity)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReceiver(seg.Bytes(), capacity)
	if err != nil {
		t.Fatal(err)
	}
	message, room := make(chan struct{}, 1), make(chan struct{}, 1)
	ring := func(bell chan struct{}, wake bool) {
		if wake {
			select {
			case bell <- struct{}{}:
			default:
			}
		}
	}
	awake := func(bell chan struct{}, what string) {
		select {
		case <-bell:
		case <-time.After(patience):
			panic(what + " sleeps for ever") // the other goroutine would wait as long
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	lengths := make([]int, messages)
	for i := range lengths {
		lengths[i] = random.IntN(s.MaxMessage() + 1)
		if i%3 == 0 {
			lengths[i] %= 32
		}
	}
	var sender sync.WaitGroup
	sender.Go(func() {
		for i, n := range lengths {
			for {
				b, err := s.Reserve(n, uint32(i))
				if err != nil {
					panic(err)
				}
				if b != nil {
					for j := range b {
						b[j] = byte(i + j)
					}
					ring(message, s.Publish())
					break
				}
				if s.Sleep() {
					awake(room, "the sender")
				}
			}
		}
	})
	for i := 0; i < messages; {
		b, kind, ok, err := r.Peek()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			if r.Sleep() {
				awake(message, "the receiver")
			}
			continue
		}
		if kind != uint32(i) || len(b) != lengths[i] {
			t.Fatalf("message %d has kind %d and %d bytes, not %d", i, kind, len(b), lengths[i])
		}
		for j := range b {
			if b[j] != byte(i+j) {
				t.Fatalf("byte %d of message %d is %d", j, i, b[j])
			}
		}
		ring(room, r.Release())
		i++
	}
	sender.Wait()
}

// FuzzRing has a peer write anything to a ring: both ends stay within it, and find an end.
func FuzzRing(f *testing.F) {
	const capacity = 64
	f.Add(uint64(8), []byte{0, 0, 0, 0x80})
	f.Add(uint64(64), []byte{0xff, 0xff, 0xff, 0x7f})
	f.Add(uint64(1<<63), []byte{})
	f.Fuzz(func(t *testing.T, at uint64, data []byte) {
		mem := make([]byte, RingSize(capacity))
		binary.NativeEndian.PutUint64(mem, at)
		binary.NativeEndian.PutUint64(mem[128:], at)
		copy(mem[ringHeader:], data)
		r, err := NewReceiver(mem, capacity)
		if err != nil {
			t.Fatal(err)
		}
		for range capacity {
			if _, _, ok, err := r.Peek(); !ok || err != nil {
				break
			}
			r.Release()
		}
		s, err := NewSender(mem, capacity)
		if err != nil {
			t.Fatal(err)
		}
		for range capacity {
			if b, err := s.Reserve(8, 0); b == nil || err != nil {
				break
			}
			s.Publish()
		}
	})
}

// TestDirectory changes an entry while a peer looks it up: it never sees half of one.
func TestDirectory(t *testing.T) {
	const entries = 16
	seg := create(t, DirectorySize(entries), ReadOnly)
	p := NewPublisher(seg.Bytes()[:DirectorySize(entries)])
	l := NewLookup(seg.Bytes()[:DirectorySize(entries)])
	for i := range uint32(entries) { // all hash to the same place
		if !p.Publish(Entry{Key: 0x500 + i, Base: uint64(i), Length: 1}) {
			t.Fatalf("no room for entry %d", i)
		}
	}
	if p.Publish(Entry{Key: 0x600}) {
		t.Error("a full directory takes one more")
	}
	for i := range uint32(entries) {
		if e, ok := l.Find(0x500 + i); !ok || e.Base != uint64(i) {
			t.Errorf("entry %d is %v, %v", i, e, ok)
		}
	}
	p.Withdraw(0x503)
	if e, ok := l.Find(0x503); ok {
		t.Errorf("an entry that was withdrawn: %v", e)
	}
	var stop atomic.Bool
	var owner sync.WaitGroup
	owner.Go(func() {
		for n := uint64(1); !stop.Load(); n++ {
			p.Publish(Entry{Key: 0x700, Access: uint32(n), Segment: n, Base: n, Length: n})
			p.Withdraw(0x700)
		}
	})
	found := 0
	for start := time.Now(); found < 1000 && time.Since(start) < patience; {
		e, ok := l.Find(0x700)
		if !ok {
			continue
		}
		found++
		if e.Segment != e.Base || e.Base != e.Length || e.Access != uint32(e.Base) {
			t.Errorf("half of an entry: %+v", e)
		}
	}
	stop.Store(true)
	owner.Wait()
	if found == 0 {
		t.Error("the entry was never found")
	}
}

func TestRange(t *testing.T) {
	e := Entry{Base: 1000, Length: 100}
	for _, c := range []struct {
		addr, n uint64
		segment int
		off     int
		ok      bool
	}{{1000, 100, 4096, 0, true}, {1100, 0, 4096, 100, true}, {1099, 1, 4096, 99, true}, {1099, 2, 4096, 0, false},
		{999, 1, 4096, 0, false}, {1001, 1<<64 - 1, 4096, 0, false}, {1000, 1, 99, 0, false}} {
		if off, ok := e.Range(c.addr, c.n, c.segment); off != c.off || ok != c.ok {
			t.Errorf("%+v: %d, %v", c, off, ok)
		}
	}
}

// TestStopped writes to, reads from and adds to the memory of a process that is stopped; then kills it.
func TestStopped(t *testing.T) {
	name := fmt.Sprintf("test/%d", os.Getpid())
	door, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer door.Close()
	if _, err := Open(name); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("the door is opened twice: %v", err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestOwner$")
	cmd.Env = append(os.Environ(), "RAMJET_TEST_DOOR="+name)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	p, err := door.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.PID() != cmd.Process.Pid {
		t.Errorf("process %d is there, not %d", p.PID(), cmd.Process.Pid)
	}
	letter, files, err := p.Receive()
	if err != nil || len(files) != 2 || len(letter) != 4 {
		t.Fatalf("%q with %d descriptors: %v", letter, len(files), err)
	}
	key := binary.NativeEndian.Uint32(letter)
	dir, err := Map(files[0], DirectorySize(64), ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	mem, err := Map(files[1], 1, ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("it is not stopped: %v, %v", status, err)
	}
	e, ok := NewLookup(dir.Bytes()[:DirectorySize(64)]).Find(key)
	if !ok {
		t.Fatal("its directory does not have the key")
	}
	off, ok := e.Range(e.Base+8, 24, len(mem.Bytes()))
	if !ok {
		t.Fatalf("%+v", e)
	}
	at := mem.Bytes()[off:]
	if n := atomic.AddUint64(word(at, 0), 5); n != 42+5 {
		t.Errorf("the sum is %d", n)
	}
	copy(at[8:], "written!")
	atomic.StoreUint64(word(at, 16), 1)
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if letter, _, err := p.Receive(); err != nil || string(letter) != "47 written!" {
		t.Errorf("it has seen %q, %v", letter, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if letter, _, err := p.Receive(); err != io.EOF {
		t.Errorf("after its death: %q, %v", letter, err)
	}
	copy(at[8:], "no fault")
}

// TestOwner is the other process of TestStopped.
func TestOwner(t *testing.T) {
	name := os.Getenv("RAMJET_TEST_DOOR")
	if name == "" {
		t.Skip("for TestStopped")
	}
	p, err := Visit(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	const key, entries = 0x12345678, 64
	dir := create(t, DirectorySize(entries), ReadOnly)
	mem := create(t, 32, ReadWrite)
	NewPublisher(dir.Bytes()[:DirectorySize(entries)]).Publish(Entry{Key: key, Base: 0x10000, Length: 32})
	at := mem.Bytes()[8:]
	*word(at, 0) = 42
	if err := p.Send(binary.NativeEndian.AppendUint32(nil, key), patience, dir.File(), mem.File()); err != nil {
		t.Fatal(err)
	}
	for atomic.LoadUint64(word(at, 16)) == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := p.Send(fmt.Appendf(nil, "%d %s", atomic.LoadUint64(word(at, 0)), at[8:16]), patience); err != nil {
		t.Fatal(err)
	}
	p.Receive() // until it is killed
}
