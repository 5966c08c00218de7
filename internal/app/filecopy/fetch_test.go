// SPDX-License-Identifier: Apache-2.0

package filecopy

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func readable(s *Server) { s.Readable = true }

// here opens a directory for fetched files. same compares with it.
func (b *bench) here() (root *os.Root, path string) {
	b.Helper()
	path = b.TempDir()
	root, err := os.OpenRoot(path)
	b.ok(err)
	b.Cleanup(func() { root.Close() })
	return root, path
}

// swapped has the server offer the sources, and same look at another directory.
func (b *bench) swapped(to string) *bench {
	c := *b
	c.to = to
	return &c
}

// served makes a file of random bytes at the server.
func (b *bench) served(name string, size int) (path string, data []byte) {
	b.Helper()
	c := *b
	c.from = b.to
	return c.source(name, size)
}

func TestGet(t *testing.T) {
	eachWay(t, func(t *testing.T) {
		b := newBench(t, readable)
		root, to := b.here()
		c := b.dial()
		for _, size := range []int{0, 1, 4096, testSegment - 1, testSegment, testSegment + 1, 11*testSegment + 17} {
			name := fmt.Sprint("file of ", size)
			path, data := b.served(name, size)
			var reported atomic.Int64
			got, err := c.Get(b.ctx, name, root, "copy of "+name, func(n int64) { reported.Add(n) })
			b.ok(err)
			if got != (Copied{Size: int64(size), Sum: sha256.Sum256(data)}) || reported.Load() != int64(size) {
				t.Errorf("%+v, %d bytes reported", got, reported.Load())
			}
			b.swapped(to).same(path, "copy of "+name, data)
		}
		got, err := c.Get(b.ctx, fmt.Sprint("file of ", testSegment+1), root,
			fmt.Sprint("copy of file of ", testSegment+1), nil)
		if err != nil || got.Kept != testSegment+1 {
			t.Errorf("the second time: %+v, %v", got, err)
		}
	})
}

// A fetch that is interrupted keeps the received segments, and the next one goes on there.
func TestGetResumes(t *testing.T) {
	b := newBench(t, readable)
	root, to := b.here()
	path, data := b.served("big", 40*testSegment+99)
	ctx, cancel := context.WithCancel(b.ctx)
	c := b.dial()
	var reported int64
	_, err := c.Get(ctx, "big", root, "big", func(n int64) {
		if reported += n; reported >= 16*testSegment {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	b.ok(c.Close())
	info, err := os.Stat(filepath.Join(to, partialName("big")))
	b.ok(err)
	if info.Size()%testSegment != 0 || info.Size() < 4*testSegment {
		t.Errorf("%d bytes are left", info.Size())
	}
	got, err := b.dial().Get(b.ctx, "big", root, "big", nil)
	b.ok(err)
	if got.Kept != info.Size() || got.Sum != sha256.Sum256(data) {
		t.Errorf("%d of %d bytes kept", got.Kept, info.Size())
	}
	b.swapped(to).same(path, "big", data)
}

// A file that cannot be fetched is refused with the reason, and the connection goes on.
func TestGetRefused(t *testing.T) {
	b := newBench(t, readable)
	root, to := b.here()
	c := b.dial()
	outside := t.TempDir()
	b.ok(os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600))
	b.ok(os.Symlink(filepath.Join(outside, "secret"), filepath.Join(b.to, "link")))
	b.ok(os.Symlink(outside, filepath.Join(b.to, "out")))
	b.ok(os.Mkdir(filepath.Join(b.to, "dir"), 0o700))
	for name, text := range map[string]string{
		"":            "is not a name below the served directory",
		"/etc/passwd": "is not a name below the served directory",
		"../secret":   "leaves the served directory",
		"a\x00b":      "is not a name",
		"link":        "escapes",
		"out/secret":  "escapes",
		"dir":         "not a regular file",
		"none":        "no such file or directory",
	} {
		_, err := c.Get(b.ctx, name, root, "got", nil)
		if e := (*ServerError)(nil); !errors.As(err, &e) || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v, want %q", name, err, text)
		}
		if list, err := c.List(b.ctx, name); err == nil && name != "dir" {
			t.Errorf("%q: listed as %v", name, list)
		}
	}
	// Nor is anything written outside of the directory here.
	_, _ = b.served("file", 10)
	b.ok(os.Symlink(outside, filepath.Join(to, "out")))
	for _, name := range []string{"../x", "/x", "out/x", "missing/x", "."} {
		if _, err := c.Get(b.ctx, "file", root, name, nil); err == nil || errors.Is(err, ErrLost) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if left, _ := os.ReadDir(outside); len(left) != 1 {
		t.Errorf("%v is outside", left)
	}
	if _, err := c.Get(b.ctx, "file", root, "got", nil); err != nil {
		t.Errorf("after all of these: %v", err)
	}
}

// A server lets clients neither read nor write by default.
func TestPermissions(t *testing.T) {
	b := newBench(t)
	path, _ := b.source("file", 10)
	root, _ := b.here()
	c := b.dial()
	_, err := c.Put(b.ctx, path, "file", nil)
	b.ok(err)
	_, gerr := c.Get(b.ctx, "file", root, "file", nil)
	_, lerr := c.List(b.ctx, ".")
	for _, err := range []error{gerr, lerr} {
		if err == nil || !strings.Contains(err.Error(), "start it with --read") {
			t.Error(err)
		}
	}

	b = newBench(t, readable, func(s *Server) { s.ReadOnly = true })
	path, _ = b.source("file", 10)
	c = b.dial()
	_, perr := c.Put(b.ctx, path, "file", nil)
	for _, err := range []error{perr, c.Mkdir(b.ctx, "dir"), c.SetAttr(b.ctx, ".", must(os.Stat(path)))} {
		if err == nil || !strings.Contains(err.Error(), "--read-only") {
			t.Error(err)
		}
	}
	if left, _ := os.ReadDir(b.to); len(left) > 0 {
		t.Errorf("%v was written", left)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestList(t *testing.T) {
	b := newBench(t, readable)
	c := b.dial()
	b.ok(os.Mkdir(filepath.Join(b.to, "dir"), 0o750))
	b.served("file", 17)
	b.ok(os.Symlink("file", filepath.Join(b.to, "link")))
	b.ok(os.WriteFile(filepath.Join(b.to, partialName("half")), nil, 0o600))
	var want []string
	for i := range 1000 { // of several messages
		name := fmt.Sprintf("%03d %s", i, strings.Repeat("x", 100))
		b.ok(os.WriteFile(filepath.Join(b.to, "dir", name), nil, 0o600))
		want = append(want, name)
	}
	list, err := c.List(b.ctx, ".")
	b.ok(err)
	slices.SortFunc(list, func(a, b Entry) int { return strings.Compare(a.Base, b.Base) })
	if len(list) != 3 || list[0].Base != "dir" || !list[0].IsDir() || list[0].Mode() != os.ModeDir|0o750 ||
		list[1].Base != "file" || list[1].Size() != 17 || list[1].Mode() != 0o640 ||
		!list[1].ModTime().Equal(time.Unix(1_600_000_000, 123456789)) ||
		list[2].Base != "link" || list[2].Kind != Other {
		t.Errorf("%+v", list)
	}
	if e, err := c.Lookup(b.ctx, "link"); err != nil || e.Kind != File || e.Len != 17 {
		t.Errorf("through a link: %+v, %v", e, err)
	}
	if e, err := c.Lookup(b.ctx, "dir"); err != nil || e.Mode() != os.ModeDir|0o750 {
		t.Errorf("a directory itself: %+v, %v", e, err)
	}
	if e, err := c.Lookup(b.ctx, "."); err == nil {
		t.Errorf("the root: %+v", e)
	}
	list, err = c.List(b.ctx, "dir")
	b.ok(err)
	var names []string
	for _, e := range list {
		names = append(names, e.Base)
	}
	if slices.Sort(names); !slices.Equal(names, want) {
		t.Errorf("%d entries: %.100q", len(names), names)
	}
	if list, err = c.List(b.ctx, "file"); err != nil || len(list) != 1 || list[0].Base != "file" || list[0].Len != 17 {
		t.Errorf("%+v, %v", list, err)
	}
}

// A file that changes while it is fetched is given up, with the reason.
func TestGetChanges(t *testing.T) {
	b := newBench(t, readable)
	root, to := b.here()
	path, _ := b.served("file", 40*testSegment)
	c := b.dial()
	changed := false
	_, err := c.Get(b.ctx, "file", root, "file", func(n int64) {
		if n > 0 && !changed {
			changed = true
			b.ok(os.Truncate(path, 100))
		}
	})
	if e := (*ServerError)(nil); !errors.As(err, &e) || !strings.Contains(err.Error(), "changed") {
		t.Error(err)
	}
	b.swapped(to).noPartial("file")
	if _, err := c.Get(b.ctx, "file", root, "file", nil); err != nil {
		t.Errorf("again: %v", err)
	}
}

// A server that does not keep to the protocol gets nothing written outside, and no endless loop.
func TestBadServers(t *testing.T) {
	for name, messages := range map[string][]message{
		"another's name":     {open{File: 1, Size: 5, Name: "../x"}},
		"opened twice":       {open{File: 1, Size: 5}, open{File: 1, Size: 5}},
		"not granted":        {open{File: 1, Size: 5}, written{1, 1}},
		"started nowhere":    {open{File: 1, Size: 5}, start{1, 9}},
		"too long":           {open{File: 1, Size: 1 << 63}},
		"sum of other bytes": {open{File: 1, Size: 0}, finish{1, digest{1}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			l, err := Listen(t.Context(), device(t), ":0")
			b.ok(err)
			defer l.Close()
			served := make(chan error, 1)
			go func() {
				conn, err := l.Accept(b.ctx)
				for _, m := range messages {
					if err == nil {
						err = newLink(conn, nil).send(b.ctx, m)
					}
				}
				served <- err
			}()
			c, err := Dial(b.ctx, b.dev, l.Addr().String(), 2*time.Minute)
			b.ok(err)
			defer c.Close()
			root, to := b.here()
			if _, err := c.Get(b.ctx, "x", root, "x", nil); err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			b.ok(<-served)
			if left, _ := os.ReadDir(to); len(left) > 0 {
				t.Errorf("%v is there", left)
			}
		})
	}
}
