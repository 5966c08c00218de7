// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

func TestObjectOrder(t *testing.T) {
	var parent, other, child object
	if err := child.use("create", &parent, &other); err != nil {
		t.Fatal(err)
	}
	destroyed := 0
	destroy := func() error { destroyed++; return nil }
	if err := parent.close("close_parent", destroy); !errors.Is(err, ErrBusy) || destroyed != 0 {
		t.Fatalf("closing what is in use: %v, destroyed %d times", err, destroyed)
	}
	for range 2 {
		if err := child.close("close_child", destroy); err != nil || destroyed != 1 {
			t.Fatalf("closing: %v, destroyed %d times", err, destroyed)
		}
	}
	if err := parent.close("close_parent", destroy); err != nil {
		t.Fatal(err)
	}
	var late object
	if err := late.use("create", &other, &parent); !errors.Is(err, ErrClosed) {
		t.Fatalf("using what is closed: %v", err)
	}
	if err := other.close("close_other", destroy); err != nil {
		t.Fatalf("a use that failed was kept: %v", err)
	}
}

func TestObjectDestroyFails(t *testing.T) {
	var parent, child object
	if err := child.use("create", &parent); err != nil {
		t.Fatal(err)
	}
	if err := child.close("close", func() error { return ErrBusy }); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	if err := parent.close("close", func() error { return nil }); !errors.Is(err, ErrBusy) {
		t.Fatalf("an object that could not be destroyed gave up what it uses: %v", err)
	}
	if err := child.close("close", func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := parent.close("close", func() error { return nil }); err != nil {
		t.Fatal(err)
	}
}

func TestObjectUnuse(t *testing.T) {
	var parent, child object
	if err := child.use("create", &parent); err != nil {
		t.Fatal(err)
	}
	child.unuse()
	if err := parent.close("close", func() error { return nil }); err != nil {
		t.Fatal(err)
	}
}

// TestObjectRaces has goroutines use and close at once: an object is destroyed once, and
// never while it is in use.
func TestObjectRaces(t *testing.T) {
	for range 100 {
		var parent object
		var destroyed atomic.Int32
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				var child object
				if child.use("create", &parent) != nil {
					return
				}
				if destroyed.Load() != 0 {
					t.Error("destroyed while in use")
				}
				child.close("close", func() error { return nil })
			})
			wg.Go(func() { parent.close("close", func() error { destroyed.Add(1); return nil }) })
		}
		wg.Wait()
		if n := destroyed.Load(); n > 1 {
			t.Fatalf("destroyed %d times", n)
		}
	}
}

func TestWrap(t *testing.T) {
	if wrap("op", nil) != nil {
		t.Error("no error became one")
	}
	inner := &OpError{Op: "inner", Err: ErrInvalid, Detail: "why"}
	if err := wrap("outer", inner); err != error(inner) {
		t.Errorf("an OpError was wrapped again: %v", err)
	}
	err := wrap("post_send", ErrQueueFull)
	var op *OpError
	if !errors.As(err, &op) || op.Op != "post_send" || !errors.Is(err, ErrQueueFull) ||
		err.Error() != "verbs: post_send: queue is full" {
		t.Errorf("%v", err)
	}
	if s := inner.Error(); s != "verbs: inner: invalid argument: why" {
		t.Error(s)
	}
}

func TestErrno(t *testing.T) {
	for err, want := range map[error]syscall.Errno{
		ErrBusy: syscall.EBUSY, ErrNotSupported: syscall.EOPNOTSUPP, ErrQueueFull: syscall.ENOMEM,
		ErrNoMemory: syscall.ENOMEM, ErrPermission: syscall.EPERM, ErrFault: syscall.EFAULT,
		ErrNotFound: syscall.ENOENT, ErrInvalid: syscall.EINVAL,
		ErrState: syscall.EINVAL, syscall.ENETDOWN: syscall.ENETDOWN, errors.Join(ErrBusy): syscall.EBUSY,
	} {
		if got := (&OpError{Op: "x", Err: err}).Errno(); got != want {
			t.Errorf("%v: errno %v, want %v", err, got, want)
		}
	}
}

func TestStatusError(t *testing.T) {
	if StatusSuccess.Err() != nil {
		t.Error("success is an error")
	}
	err := StatusRemoteAccessError.Err()
	if !errors.Is(err, &StatusError{Status: StatusRemoteAccessError}) ||
		errors.Is(err, &StatusError{Status: StatusWRFlushError}) {
		t.Errorf("%v", err)
	}
	for s := StatusSuccess; s <= StatusGeneralError; s++ {
		if s.String() == "unknown" {
			t.Errorf("status %d has no name", s)
		}
	}
	if (StatusGeneralError + 1).String() != "unknown" {
		t.Error("a status that does not exist has a name")
	}
}

func TestNames(t *testing.T) {
	if s := (LocalWrite | RemoteRead).String(); s != "LOCAL_WRITE|REMOTE_READ" {
		t.Error(s)
	}
	if s := Access(0).String(); s != "none" {
		t.Error(s)
	}
	for op := OpSend; op <= OpBindMW; op++ {
		if op.String() == "unknown" {
			t.Errorf("operation %d has no name", op)
		}
	}
	for e := EventCQError; e <= EventGIDChange; e++ {
		if e.String() == "unknown" {
			t.Errorf("event %d has no name", e)
		}
	}
	for n, want := range map[int]MTU{256: MTU256, 512: MTU512, 1024: MTU1024, 2048: MTU2048, 4096: MTU4096} {
		if m, ok := MTUOf(n); !ok || m != want || m.Bytes() != n {
			t.Errorf("MTUOf(%d) is %v", n, m)
		}
	}
	if _, ok := MTUOf(1000); ok {
		t.Error("there is no MTU of 1000")
	}
}
