// SPDX-License-Identifier: Apache-2.0

package filecopy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// testSegment is segmentSize in tests: a segment is still many pages and packets.
const testSegment = 256 << 10

func TestMain(m *testing.M) {
	segmentSize = testSegment
	testrun.Waits()
	os.Exit(m.Run())
}

// device opens a device of a loopback address of its own.
func device(t *testing.T) *verbs.Device {
	t.Helper()
	dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) { return roce.Open(addr, nil) })
	return dev
}

// bench is a server with its directory, and a place for sources.
type bench struct {
	*testing.T
	ctx    context.Context
	from   string
	to     string
	addr   string
	dev    *verbs.Device // the client's
	events chan Event
}

func newBench(t *testing.T, options ...func(*Server)) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	b := &bench{T: t, ctx: ctx, from: t.TempDir(), to: t.TempDir(), dev: device(t), events: make(chan Event, 100)}
	l, err := Listen(ctx, device(t), ":0")
	b.ok(err)
	root, err := os.OpenRoot(b.to)
	b.ok(err)
	b.addr = l.Addr().String()
	done := make(chan error)
	s := &Server{Root: root, Report: func(e Event) { b.events <- e }}
	for _, o := range options {
		o(s)
	}
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		l.Close()
		root.Close()
	})
	return b
}

func (b *bench) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) dial() *Client {
	b.Helper()
	c, err := Dial(b.ctx, b.dev, b.addr, 2*time.Minute)
	b.ok(err)
	b.Cleanup(func() { c.Close() })
	return c
}

// source makes a file of random bytes.
func (b *bench) source(name string, size int) (path string, data []byte) {
	b.Helper()
	data = make([]byte, size)
	rand.NewChaCha8([32]byte{byte(size)}).Read(data)
	path = filepath.Join(b.from, name)
	b.ok(os.WriteFile(path, data, 0o640))
	b.ok(os.Chtimes(path, time.Time{}, time.Unix(1_600_000_000, 123456789)))
	return path, data
}

// same fails the test unless the server has the file, and nothing of an incomplete one.
func (b *bench) same(path, name string, data []byte) {
	b.Helper()
	got, err := os.ReadFile(filepath.Join(b.to, name))
	b.ok(err)
	if !bytes.Equal(got, data) {
		b.Fatalf("%s: %d bytes arrived as %d others", name, len(data), len(got))
	}
	want, err := os.Stat(path)
	b.ok(err)
	info, err := os.Stat(filepath.Join(b.to, name))
	b.ok(err)
	if info.Mode() != want.Mode() || !info.ModTime().Equal(want.ModTime()) {
		b.Errorf("%s: %v %v, want %v %v", name, info.Mode(), info.ModTime(), want.Mode(), want.ModTime())
	}
	b.noPartial(name)
}

func (b *bench) noPartial(name string) {
	b.Helper()
	if _, err := os.Lstat(filepath.Join(b.to, partialName(name))); !errors.Is(err, fs.ErrNotExist) {
		b.Errorf("%s: an incomplete file is left: %v", name, err)
	}
}

// eachWay runs a test with files mapped and not.
func eachWay(t *testing.T, f func(t *testing.T)) {
	for _, way := range []string{"mapped", "read"} {
		t.Run(way, func(t *testing.T) {
			if noMaps = way == "read"; noMaps {
				defer func() { noMaps = false }()
			}
			f(t)
		})
	}
}

func TestPut(t *testing.T) {
	eachWay(t, func(t *testing.T) {
		b := newBench(t)
		c := b.dial()
		for _, size := range []int{0, 1, 4096, testSegment - 1, testSegment, testSegment + 1, 11*testSegment + 17} {
			name := fmt.Sprint("file of ", size)
			path, data := b.source(name, size)
			var reported atomic.Int64
			got, err := c.Put(b.ctx, path, name, func(n int64) { reported.Add(n) })
			b.ok(err)
			if got != (Copied{Size: int64(size), Sum: sha256.Sum256(data)}) || reported.Load() != int64(size) {
				t.Errorf("%+v, %d bytes reported", got, reported.Load())
			}
			b.same(path, name, data)

			got, err = c.Put(b.ctx, path, name, nil) // again
			b.ok(err)
			if got.Kept != int64(size) {
				t.Errorf("%d of %d bytes were not copied again", got.Kept, size)
			}
			b.same(path, name, data)
		}
	})
}

func TestPutReplaces(t *testing.T) {
	b := newBench(t)
	c := b.dial()
	path, data := b.source("new", 5000)
	b.ok(os.WriteFile(filepath.Join(b.to, "old"), make([]byte, 10), 0o600))
	b.ok(os.WriteFile(filepath.Join(b.to, "target"), []byte("stays"), 0o600))
	b.ok(os.Symlink("target", filepath.Join(b.to, "link")))
	for _, name := range []string{"old", "link"} {
		_, err := c.Put(b.ctx, path, name, nil)
		b.ok(err)
		b.same(path, name, data)
	}
	if got, _ := os.ReadFile(filepath.Join(b.to, "target")); string(got) != "stays" {
		t.Errorf("%q", got)
	}
	long := strings.Repeat("n", 255)
	_, err := c.Put(b.ctx, path, long, nil)
	b.ok(err)
	b.same(path, long, data)
}

// interrupt copies a file and closes the connection when some of it is there.
func (b *bench) interrupt(path, name string, after int64) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.ctx)
	c := b.dial()
	var reported atomic.Int64
	_, err := c.Put(ctx, path, name, func(n int64) {
		if reported.Add(n) >= after {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		b.Fatal(err)
	}
	b.ok(c.Close())
	for e := range b.events {
		if e.Name == name {
			if e.Err == nil {
				b.Fatal("the copy was completed")
			}
			return
		}
	}
}

func TestResume(t *testing.T) {
	eachWay(t, func(t *testing.T) {
		b := newBench(t)
		const size = 40*testSegment + 99
		path, data := b.source("big", size)
		partial := filepath.Join(b.to, partialName("big"))
		b.interrupt(path, "big", 16*testSegment)
		info, err := os.Stat(partial)
		b.ok(err)
		if info.Size()%testSegment != 0 || info.Size() < 4*testSegment {
			t.Errorf("%d bytes are left", info.Size())
		}
		b.interrupt(path, "big", info.Size()+4*testSegment)
		f, err := os.OpenFile(partial, os.O_RDWR, 0)
		b.ok(err)
		_, err = f.WriteAt([]byte("damage"), 2*testSegment+5)
		b.ok(err)
		b.ok(f.Close())
		got, err := b.dial().Put(b.ctx, path, "big", nil)
		b.ok(err)
		if got.Kept != 2*testSegment || got.Sum != sha256.Sum256(data) {
			t.Errorf("%d bytes kept", got.Kept)
		}
		b.same(path, "big", data)

		// The server died: the end of its partial file was never written.
		b.ok(os.Rename(filepath.Join(b.to, "big"), partial))
		b.ok(os.Truncate(partial, 5*testSegment+1))
		b.ok(os.Truncate(partial, 9*testSegment))
		got, err = b.dial().Put(b.ctx, path, "big", nil)
		b.ok(err)
		if got.Kept != 5*testSegment {
			t.Errorf("%d bytes kept", got.Kept)
		}
		b.same(path, "big", data)

		// The partial file is of a longer file.
		b.ok(os.Rename(filepath.Join(b.to, "big"), partial))
		short := data[:3*testSegment+7]
		b.ok(os.WriteFile(path, short, 0o600))
		got, err = b.dial().Put(b.ctx, path, "big", nil)
		b.ok(err)
		if got.Kept != int64(len(short)) {
			t.Errorf("%d bytes kept", got.Kept)
		}
		b.same(path, "big", short)
	})
}

// A file of the same size and time that differs in the middle.
func TestResumeFromComplete(t *testing.T) {
	b := newBench(t)
	path, data := b.source("file", 3*testSegment)
	_, err := b.dial().Put(b.ctx, path, "file", nil)
	b.ok(err)
	info, err := os.Stat(path)
	b.ok(err)
	data[testSegment+1]++
	b.ok(os.WriteFile(path, data, 0))
	b.ok(os.Chtimes(path, time.Time{}, info.ModTime()))
	got, err := b.dial().Put(b.ctx, path, "file", nil)
	b.ok(err)
	if got.Kept != testSegment {
		t.Errorf("%d bytes kept", got.Kept)
	}
	b.same(path, "file", data)
}

func TestNames(t *testing.T) {
	b := newBench(t)
	c := b.dial()
	path, data := b.source("file", 10)
	outside := t.TempDir()
	b.ok(os.Symlink(outside, filepath.Join(b.to, "out")))
	b.ok(os.Mkdir(filepath.Join(b.to, "dir"), 0o700))
	for name, text := range map[string]string{
		"":             "is not a name",
		"/etc/passwd":  "is not a name below the served directory",
		"../x":         "leaves the served directory",
		"dir/../../x":  "leaves the served directory",
		"..":           "leaves the served directory",
		"a\x00b":       "is not a name",
		"out/x":        "escapes",
		"dir":          "directory of this name",
		"missing/file": "no such file or directory",
	} {
		_, err := c.Put(b.ctx, path, name, nil)
		if e := (*ServerError)(nil); !errors.As(err, &e) || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v, want %q", name, err, text)
		}
		if name != "dir" && name != "missing/file" {
			if err := c.Mkdir(b.ctx, name); err == nil {
				t.Errorf("directory %q was made", name)
			}
		}
	}
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Errorf("%v is outside", left)
	}
	b.ok(c.Mkdir(b.ctx, "dir"))
	b.ok(c.Mkdir(b.ctx, "dir/sub"))
	_, err := c.Put(b.ctx, path, "dir/sub/../sub/file", nil)
	b.ok(err)
	b.same(path, "dir/sub/file", data)
	for name, want := range map[string]FileKind{"dir": Dir, "dir/sub/file": File, "none": None, "dir/none": None,
		".": Dir} {
		if got, err := c.Stat(b.ctx, name); got != want || err != nil {
			t.Errorf("%s is %v, %v", name, got, err)
		}
	}
	b.ok(os.Chmod(b.from, 0o750))
	info, err := os.Stat(b.from)
	b.ok(err)
	b.ok(c.SetAttr(b.ctx, "dir/sub", info))
	if got, _ := os.Stat(filepath.Join(b.to, "dir/sub")); got.Mode() != info.Mode() ||
		!got.ModTime().Equal(info.ModTime()) {
		t.Errorf("%v", got)
	}
}

// A source that another program truncates, or writes, while it is copied.
func TestSourceChanges(t *testing.T) {
	for how, change := range map[string]func(path string) error{
		"truncated": func(path string) error { return os.Truncate(path, 100) },
		"written":   func(path string) error { return os.WriteFile(path, []byte("other"), 0) },
	} {
		t.Run(how, func(t *testing.T) {
			eachWay(t, func(t *testing.T) {
				b := newBench(t)
				path, _ := b.source("file", 24*testSegment)
				c := b.dial()
				var once atomic.Bool
				changed := make(chan error, 1)
				_, err := c.Put(b.ctx, path, "file", func(int64) {
					if once.CompareAndSwap(false, true) {
						go func() { changed <- change(path) }() // it waits for the lease
						if noMaps {
							changed <- <-changed
						}
					}
				})
				if !errors.Is(err, ErrChanged) {
					t.Errorf("%v", err)
				}
				b.ok(<-changed)
				path, data := b.source("next", 10)
				_, err = c.Put(b.ctx, path, "next", nil)
				b.ok(err)
				b.same(path, "next", data)
				b.noPartial("file")
			})
		})
	}
}

func TestSourceFaults(t *testing.T) {
	b := newBench(t)
	c := b.dial()
	if _, err := c.Put(b.ctx, filepath.Join(b.from, "none"), "x", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := c.Put(b.ctx, b.from, "x", nil); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
}

func TestDiskFull(t *testing.T) {
	b := newBench(t)
	c := b.dial()
	path, _ := b.source("huge", 1)
	if err := os.Truncate(path, 8<<40); err != nil {
		t.Skip(err)
	}
	_, err := c.Put(b.ctx, path, "huge", nil)
	if e := (*ServerError)(nil); !errors.As(err, &e) || !strings.Contains(err.Error(), "no space left on device") {
		t.Error(err)
	}
	path, data := b.source("next", 10)
	_, err = c.Put(b.ctx, path, "next", nil)
	b.ok(err)
	b.same(path, "next", data)
	b.noPartial("huge")
}

func TestTwoWriters(t *testing.T) {
	defer func(d time.Duration) { busyTime = d }(busyTime)
	busyTime = time.Millisecond
	b := newBench(t)
	path, data := b.source("file", 20*testSegment)
	first, second := b.dial(), b.dial()
	var once atomic.Bool
	refused := make(chan error, 1)
	_, err := first.Put(b.ctx, path, "file", func(int64) {
		if once.CompareAndSwap(false, true) {
			_, err := second.Put(b.ctx, path, "./file", nil)
			refused <- err
		}
	})
	b.ok(err)
	if err := <-refused; err == nil || !strings.Contains(err.Error(), "another client is writing it") {
		t.Error(err)
	}
	b.same(path, "file", data)
}

// A client of another protocol gets an error that says so.
func TestOtherVersion(t *testing.T) {
	b := newBench(t)
	_, err := cm.Dial(b.ctx, b.dev, b.addr, cm.WithPrivateData([]byte("ramjet-cp\x01")))
	if reject := (*cm.RejectError)(nil); !errors.As(err, &reject) ||
		!strings.Contains(string(reject.PrivateData), "version 2") {
		t.Error(err)
	}
}

// Clients that do not keep to the protocol lose their connection, and nothing else happens.
func TestBadClients(t *testing.T) {
	b := newBench(t)
	b.ok(os.WriteFile(filepath.Join(b.to, "there"), []byte("hello"), 0o644))
	there, err := os.Stat(filepath.Join(b.to, "there"))
	b.ok(err)
	for name, messages := range map[string][]message{
		"not a client's":    {done{}},
		"opened twice":      {open{File: 1, Size: 5, Name: "a"}, open{File: 2, Size: 5, Name: "b"}},
		"started twice":     {open{File: 1, Size: 5, Name: "a"}, start{1, 0}},
		"started too far":   {open{File: 1, Size: 5, Name: "a"}, start{1, 7}},
		"started nowhere":   {open{File: 1, Size: 5, Name: "there", attr: attrOf(there)}, start{1, 1 << 31}},
		"not granted":       {open{File: 1, Size: 5, Name: "a"}, written{1, 1}},
		"written twice":     {open{File: 1, Size: 5, Name: "a"}, written{1, 0}, written{1, 0}},
		"no message at all": {raw("nonsense")},
	} {
		t.Run(name, func(t *testing.T) {
			c := b.dial()
			for _, m := range messages {
				b.ok(c.send(b.ctx, m))
			}
			for {
				if _, err := c.recv(b.ctx); errors.Is(err, ErrLost) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
			}
			for e := range b.events {
				if e.Name == "" && e.Err != nil { // the last word on the connection
					if !errors.Is(e.Err, errMessage) {
						t.Error(e.Err)
					}
					break
				}
			}
			b.ok(os.RemoveAll(filepath.Join(b.to, partialName("a")))) // complete files are kept
		})
	}
	c := b.dial()
	b.ok(c.send(b.ctx, open{File: 1, Size: 5, Name: "a"}))
	b.ok(c.send(b.ctx, finish{File: 1}))
	if _, err := c.answer(b.ctx, 1); err != nil { // have
		t.Fatal(err)
	}
	if _, err := c.answer(b.ctx, 1); err != nil { // grant
		t.Fatal(err)
	}
	if _, err := c.answer(b.ctx, 1); err == nil || !strings.Contains(err.Error(), "0 of 1 segments") {
		t.Error(err)
	}
}

// No file has a name of incomplete ones: one of another name would be built in it.
func TestPartialName(t *testing.T) {
	b := newBench(t)
	path, _ := b.source("f", 5)
	c := b.dial()
	for _, name := range []string{partialName("x"), "dir/" + partialName("x"), "x" + partialSuffix} {
		if _, err := c.Put(b.ctx, path, name, nil); err == nil || !strings.Contains(err.Error(), "incomplete files") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Two clients that name one file in different ways, through a symbolic link, do not write it at the same time. Nor do
// clients of two servers.
func TestOneFileTwoNames(t *testing.T) {
	b := newBench(t)
	b.ok(os.Mkdir(filepath.Join(b.to, "dir"), 0o755))
	b.ok(os.Symlink("dir", filepath.Join(b.to, "link")))
	path, data := b.source("f", 3*testSegment)
	for _, held := range []string{"new", "begun"} {
		a := b.dial()
		b.ok(a.send(b.ctx, open{File: 1, Size: uint64(len(data)), Name: "dir/x"}))
		if _, err := a.answer(b.ctx, 1); err != nil { // have
			t.Fatal(err)
		}
		if held == "new" {
			if _, err := a.answer(b.ctx, 1); err != nil { // grant: the partial file is there
				t.Fatal(err)
			}
		}
		if _, err := b.dial().Put(b.ctx, path, "link/x", nil); err == nil ||
			!strings.Contains(err.Error(), "another client is writing it") {
			t.Errorf("%s: %v", held, err)
		}
		b.ok(a.send(b.ctx, abort{1, held == "begun"}))
		a.Close()
		for e := range b.events {
			if e.Name == filepath.FromSlash("dir/x") && e.Err != nil {
				break
			}
		}
		if held == "new" { // leave some of it for the next round
			b.ok(os.WriteFile(filepath.Join(b.to, "dir", partialName("x")), data[:testSegment], 0o600))
		}
	}
	if _, err := b.dial().Put(b.ctx, path, "link/x", nil); err != nil {
		t.Fatal(err)
	}
	b.same(path, "dir/x", data)
}

// A partial file that another program has replaced is not given the name of the file.
func TestPartialReplaced(t *testing.T) {
	b := newBench(t)
	root, err := os.OpenRoot(b.to)
	b.ok(err)
	defer root.Close()
	in, err := newIncoming(root, nil, "x", open{File: 1})
	b.ok(err)
	b.ok(in.begin(0))
	b.ok(os.Remove(filepath.Join(b.to, in.partial)))
	b.ok(os.WriteFile(filepath.Join(b.to, in.partial), []byte("of another"), 0o600))
	err = in.finish(in.chain.sum())
	if err == nil || !strings.Contains(err.Error(), "replaced") {
		t.Error(err)
	}
	in.keep = false
	in.interrupted()
	if got, err := os.ReadFile(filepath.Join(b.to, in.partial)); err != nil || string(got) != "of another" {
		t.Errorf("%q, %v", got, err)
	}
}

// raw is sent as it is.
type raw string

func (r raw) append(b []byte) []byte { return append(b, r...) }
