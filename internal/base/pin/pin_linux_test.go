// SPDX-License-Identifier: Apache-2.0

package pin

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/verbs"
)

var page = os.Getpagesize()

// mapped maps pages that were not touched.
func mapped(t *testing.T, pages int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, pages*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(b) })
	return b
}

// present tells which pages are in memory.
func present(t *testing.T, b []byte) (n int) {
	t.Helper()
	state := make([]byte, len(b)/page)
	if _, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		uintptr(unsafe.Pointer(&state[0]))); e != 0 {
		t.Fatal(e)
	}
	for _, s := range state {
		n += int(s & 1)
	}
	return n
}

// locked returns how much memory of the process is locked, as the system says.
func locked() int { return int(inUse()) }

// within leaves out a test where the process may pin less than it needs.
func within(t *testing.T, bytes int) {
	t.Helper()
	b := mapped(t, bytes/page)
	p, err := Now(b)
	if errors.Is(err, verbs.ErrPinLimit) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.Unpin()
}

func must(t *testing.T) func(*Pages, error) *Pages {
	return func(p *Pages, err error) *Pages {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
}

func TestNow(t *testing.T) {
	within(t, 8*page)
	b := mapped(t, 8)
	before := locked()
	p := must(t)(Now(b[1 : 7*page+1])) // 8 pages
	if n := present(t, b); n != 8 {
		t.Errorf("%d pages are present", n)
	}
	if n := locked() - before; n != 8*page || Held() != n {
		t.Errorf("%d bytes are locked, %d held", n, Held())
	}
	if err := p.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	p.Unpin()
	p.Unpin()
	if n := locked() - before; n != 0 || Held() != 0 {
		t.Errorf("%d bytes are still locked, %d held", n, Held())
	}
}

func TestOverlap(t *testing.T) {
	within(t, 8*page)
	b := mapped(t, 8)
	before := locked()
	first, second, same := must(t)(Now(b[:5*page])), must(t)(OnUse(b[3*page:])), must(t)(Now(b[4*page:5*page]))
	for _, c := range []struct {
		p    *Pages
		left int
	}{{first, 5}, {same, 5}, {second, 0}} {
		c.p.Unpin()
		if n := (locked() - before) / page; n != c.left || Held() != n*page {
			t.Errorf("%d pages are locked and %d bytes held, not %d pages", n, Held(), c.left)
		}
	}
}

func TestOnUse(t *testing.T) {
	within(t, 8*page)
	b := mapped(t, 8)
	before := locked()
	p := must(t)(OnUse(b))
	if n := present(t, b); n != 0 {
		t.Errorf("%d pages are present before they are used", n)
	}
	if n := locked() - before; n != 8*page {
		t.Errorf("%d bytes count", n)
	}
	b[3*page] = 1
	if n := present(t, b); n != 1 {
		t.Errorf("%d pages are present after one was used", n)
	}
	// The system does not let go of a page that is locked.
	if err := unix.Madvise(b, unix.MADV_DONTNEED); err != unix.EINVAL {
		t.Errorf("a locked page can be given up: %v", err)
	}
	if err := p.Wait(t.Context()); !errors.Is(err, verbs.ErrInvalid) {
		t.Error(err)
	}
	p.Unpin()
	if err := unix.Madvise(b, unix.MADV_DONTNEED); err != nil {
		t.Error(err)
	}
}

func TestInBackground(t *testing.T) {
	within(t, 64*page)
	for _, chunk := range []int{0, 1, page, 3*page + 1, 63 * page, 64 * page, 1 << 30} {
		b := mapped(t, 64)
		background.Lock() // nothing goes on in the background
		p := must(t)(InBackground(b, chunk))
		first := min(max(chunk, 1), len(b))
		if n, want := present(t, b), (first+page-1)/page; n != want {
			t.Errorf("chunks of %d: %d pages are present at first, not %d", chunk, n, want)
		}
		background.Unlock()
		if err := p.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if n := present(t, b); n != 64 {
			t.Errorf("chunks of %d: %d pages are present", chunk, n)
		}
		p.Unpin()
	}
}

// A region that ends while it is being pinned is not pinned on.
func TestInBackgroundEnds(t *testing.T) {
	within(t, 64*page)
	b := mapped(t, 64)
	before := locked()
	background.Lock()
	p := must(t)(InBackground(b, page))
	ended := make(chan struct{})
	go func() { p.Unpin(); close(ended) }()
	for !p.stop.Load() {
	}
	background.Unlock()
	<-ended
	if err := p.Wait(t.Context()); !errors.Is(err, verbs.ErrClosed) {
		t.Error(err)
	}
	if n := present(t, b); n != 1 {
		t.Errorf("%d pages are present", n)
	}
	if n := locked() - before; n != 0 || Held() != 0 {
		t.Errorf("%d bytes are still locked, %d held", n, Held())
	}
}

func TestEmpty(t *testing.T) {
	for _, f := range []func([]byte) (*Pages,
		error){Now, OnUse, func(b []byte) (*Pages, error) { return InBackground(b, 1) }} {
		p := must(t)(f(nil))
		if Held() != 0 {
			t.Errorf("%d bytes held", Held())
		}
		p.Unpin()
	}
}

func TestNotMapped(t *testing.T) {
	within(t, 4*page)
	b := mapped(t, 4)
	if _, _, e := unix.Syscall(unix.SYS_MUNMAP, uintptr(unsafe.Pointer(&b[page])), uintptr(page), 0); e != 0 {
		t.Fatal(e)
	}
	before := locked()
	if _, err := Now(b); !errors.Is(err, verbs.ErrFault) {
		t.Error(err)
	}
	if n := locked() - before; n != 0 || Held() != 0 {
		t.Errorf("%d bytes are locked, %d held", n, Held())
	}
	if err := Prefetch(b, true); !errors.Is(err, verbs.ErrFault) {
		t.Error(err)
	}
}

func TestPrefetch(t *testing.T) {
	if !canPopulate() {
		t.Skip("this system brings in no pages")
	}
	for _, write := range []bool{false, true} {
		b := mapped(t, 8)
		if err := Prefetch(b[page-1:page+1], write); err != nil {
			t.Fatal(err)
		}
		if n := present(t, b[:2*page]); n != 2 {
			t.Errorf("%d pages are present", n)
		}
		if n := present(t, b[2*page:]); n != 0 {
			t.Errorf("%d others are present", n)
		}
	}
}

// TestConcurrent pins and unpins ranges that overlap. In the end nothing is locked.
func TestConcurrent(t *testing.T) {
	within(t, 16*page)
	b := mapped(t, 16)
	before := locked()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 100 {
				part := b[(i+j)%8*page : ((i+j)%8+8)*page]
				var p *Pages
				var err error
				switch (i + j) % 3 {
				case 0:
					p, err = Now(part)
				case 1:
					p, err = OnUse(part)
				default:
					p, err = InBackground(part, page)
				}
				if err != nil {
					t.Error(err)
					return
				}
				if (i+j)%3 == 0 && present(t, part) != 8 {
					t.Error("a pinned page is not present")
				}
				p.Unpin()
			}
		})
	}
	wg.Wait()
	if n := locked() - before; n != 0 || Held() != 0 {
		t.Errorf("%d bytes are still locked, %d held", n, Held())
	}
}

// TestLimit runs itself in a process that may pin four pages and has no capability to pin more.
func TestLimit(t *testing.T) {
	const inside = "RAMJET_TEST_PIN_LIMIT"
	if os.Getenv(inside) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLimit$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "PASS") {
			t.Fatalf("%v\n%s", err, out)
		}
		if strings.Contains(string(out), "SKIP") {
			t.Skipf("%s", out)
		}
		return
	}
	limit(t, uint64(4*page))
	b := mapped(t, 8)
	p := must(t)(Now(b[:3*page]))
	_, err := Now(b[3*page:])
	if !errors.Is(err, verbs.ErrPinLimit) {
		t.Fatal(err)
	}
	for _, want := range []string{"ulimit -l", "limits.d", "LimitMEMLOCK", "CAP_IPC_LOCK", "is 16384 bytes",
		"12288 are in use", "pinning 20480 bytes"} {
		if page == 4096 && !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	for _, f := range []func([]byte) (*Pages,
		error){OnUse, func(b []byte) (*Pages, error) { return InBackground(b, page) }} {
		if _, err := f(b[3*page:]); !errors.Is(err, verbs.ErrPinLimit) {
			t.Errorf("the limit is not found at once: %v", err)
		}
	}
	if Held() != 3*page {
		t.Errorf("%d bytes are held", Held())
	}
	must(t)(Now(b[2*page : 4*page])).Unpin() // of which one page is pinned already
	p.Unpin()
	limit(t, 0)
	if _, err := Now(b[:page]); !errors.Is(err, verbs.ErrPinLimit) {
		t.Error(err)
	}
}

// limit sets the limit of the process and takes the capability to exceed it.
func limit(t *testing.T, n uint64) {
	t.Helper()
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: n, Max: n}); err != nil {
		t.Skip(err)
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		t.Fatal(err)
	}
	data[0].Effective &^= 1 << unix.CAP_IPC_LOCK
	data[0].Permitted &^= 1 << unix.CAP_IPC_LOCK
	runtime.LockOSThread() // whose capabilities these are
	if err := unix.Capset(&hdr, &data[0]); err != nil {
		t.Fatal(err)
	}
}
