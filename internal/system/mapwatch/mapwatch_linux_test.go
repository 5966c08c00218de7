// SPDX-License-Identifier: Apache-2.0

//go:build amd64 || arm64 || riscv64

package mapwatch

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

var page = uintptr(os.Getpagesize())

func addr(mem []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(mem))) }

// log is the list of ranges that a watcher has reported.
type log struct {
	sync.Mutex
	spans [][2]uintptr
}

// take returns the ranges reported since the last call.
func (l *log) take() [][2]uintptr {
	l.Lock()
	defer l.Unlock()
	s := l.spans
	l.spans = nil
	return s
}

func start(t testing.TB) (*Watcher, *log) {
	t.Helper()
	l := new(log)
	w, err := New(l, func(from, to uintptr) { l.spans = append(l.spans, [2]uintptr{from, to}) })
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { w.Close() })
	return w, l
}

func call(t testing.TB, number, a, b, c, d, e, f uintptr) uintptr {
	t.Helper()
	r, _, errno := unix.Syscall6(number, a, b, c, d, e, f)
	if errno != 0 {
		t.Fatal(errno)
	}
	return r
}

// private maps pages, with nothing mapped behind them.
func private(t testing.TB, n uintptr) uintptr {
	t.Helper()
	at := call(t, unix.SYS_MMAP, 0, (n+1)*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON,
		^uintptr(0), 0)
	call(t, unix.SYS_MUNMAP, at+n*page, page, 0, 0, 0, 0)
	return at
}

func unmap(t testing.TB, at, n uintptr) { t.Helper(); call(t, unix.SYS_MUNMAP, at, n*page, 0, 0, 0, 0) }

// TestGone has memory go away in every way. gone was called by the time that the system call has returned.
func TestGone(t *testing.T) {
	w, l := start(t)
	for what, away := range map[string]func(at uintptr){
		"munmap":        func(at uintptr) { unmap(t, at, 4) },
		"MADV_DONTNEED": func(at uintptr) { call(t, unix.SYS_MADVISE, at, 4*page, unix.MADV_DONTNEED, 0, 0, 0) },
		"MADV_FREE":     func(at uintptr) { call(t, unix.SYS_MADVISE, at, 4*page, unix.MADV_FREE, 0, 0, 0) },
		"another in its place": func(at uintptr) {
			call(t, unix.SYS_MMAP, at, 4*page, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_FIXED,
				^uintptr(0), 0)
		},
		"mremap": func(at uintptr) {
			to := private(t, 2) // watched memory is a mapping by itself, and mremap takes one
			call(t, unix.SYS_MREMAP, at+page, 2*page, 2*page, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED, to, 0)
		},
	} {
		at := private(t, 4)
		if err := w.Watch(at+page+1, at+3*page-1); err != nil {
			t.Fatal(err)
		}
		if s := l.take(); len(s) > 0 {
			t.Fatalf("%s: told before: %x", what, s)
		}
		away(at)
		covered := func(x [2]uintptr) bool { return x[0] <= at+page && at+3*page <= x[1] }
		if s := l.take(); !slices.ContainsFunc(s, covered) {
			t.Errorf("%s of %x: told of %x", what, at, s)
		}
	}
}

// TestUnwatch unmaps memory that is no longer watched, and pages beside watched ones.
func TestUnwatch(t *testing.T) {
	w, l := start(t)
	at := private(t, 4)
	if err := w.Watch(at, at+4*page); err != nil {
		t.Fatal(err)
	}
	w.Unwatch(at, at+2*page)
	unmap(t, at, 2)
	if s := l.take(); len(s) > 0 {
		t.Errorf("told of %x", s)
	}
	unmap(t, at+2*page, 1)
	if s := l.take(); len(s) != 1 {
		t.Errorf("told of %x", s)
	}
	w.Unwatch(at, at+4*page) // of which most is not there
	unmap(t, at+3*page, 1)
	w.Close()
	if err := w.Watch(at, at+page); err == nil {
		t.Error("a closed watcher watches")
	}
}

// TestContents uses memory that is watched: the program, and the system for it, with pages that are
// not there yet.
func TestContents(t *testing.T) {
	w, _ := start(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, make([]byte, 4*page), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for what, flags := range map[string]int{"anonymous": unix.MAP_PRIVATE | unix.MAP_ANON,
		"shared": unix.MAP_SHARED | unix.MAP_ANON, "file": unix.MAP_SHARED} {
		fd := -1
		if what == "file" {
			fd = int(f.Fd())
		}
		mem, err := unix.Mmap(fd, 0, int(4*page), unix.PROT_READ|unix.PROT_WRITE, flags)
		if err != nil {
			t.Fatal(err)
		}
		at := addr(mem)
		if err := w.Watch(at, at+4*page); err != nil {
			t.Logf("%s: %v", what, err) // older kernels
			if what == "anonymous" {
				t.Fail()
			}
			continue
		}
		mem[0], mem[page] = 1, 2
		pipe := [2]int{}
		if err := unix.Pipe(pipe[:]); err != nil {
			t.Fatal(err)
		}
		unix.Write(pipe[1], []byte("abc"))
		if n, err := unix.Read(pipe[0], mem[2*page:]); n != 3 || err != nil {
			t.Errorf("%s: the system reads into it: %d, %v", what, n, err)
		}
		if n, err := unix.Write(pipe[1], mem[3*page:][:10]); n != 10 || err != nil {
			t.Errorf("%s: the system writes from it: %d, %v", what, n, err)
		}
		unix.Close(pipe[0])
		unix.Close(pipe[1])
		if string(mem[2*page:][:3]) != "abc" || mem[0] != 1 || mem[page] != 2 {
			t.Errorf("%s: other contents", what)
		}
		if err := unix.Munmap(mem); err != nil {
			t.Error(err)
		}
	}
}

// TestThreads unmaps memory in many goroutines at once while others take the lock and allocate.
func TestThreads(t *testing.T) {
	w, l := start(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			var keep [][]byte
			for range 100 {
				at := private(t, 2)
				if err := w.Watch(at, at+2*page); err != nil {
					t.Error(err)
					return
				}
				keep = append(keep, make([]byte, 1<<14)) // collections stop all goroutines
				unmap(t, at, 2)
				l.Lock()
				told := slices.ContainsFunc(l.spans, func(s [2]uintptr) bool { return s[0] <= at && at+2*page <= s[1] })
				l.Unlock()
				if !told {
					t.Errorf("nothing was told of %x", at)
				}
			}
			_ = keep
		})
	}
	all.Wait()
}

// BenchmarkUnmap maps a page, touches it and unmaps it.
func BenchmarkUnmap(b *testing.B) {
	for _, watched := range []bool{false, true} {
		name := "plain"
		if watched {
			name = "watched"
		}
		b.Run(name, func(b *testing.B) {
			w, l := start(b)
			for b.Loop() {
				mem, err := unix.Mmap(-1, 0, int(page), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
				if err != nil {
					b.Fatal(err)
				}
				if at := addr(mem); watched {
					if err := w.Watch(at, at+page); err != nil {
						b.Fatal(err)
					}
				}
				mem[0] = 1
				if err := unix.Munmap(mem); err != nil {
					b.Fatal(err)
				}
			}
			if n := len(l.take()); watched && n != b.N {
				b.Errorf("told of %d of %d", n, b.N)
			}
		})
	}
}
