// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// plainMR is a region of a device that can neither be kept from it nor watched, as of hardware.
type plainMR struct {
	mu sync.Mutex
	b  []byte
}

func (m *plainMR) Addr() uint64 { return 0 }
func (m *plainMR) LKey() Key    { return 1 }
func (m *plainMR) RKey() Key    { return 1 }
func (m *plainMR) Dereg() error { return nil }

func (m *plainMR) Prefetch(int, int, bool) error    { return ErrNotSupported }
func (m *plainMR) WaitPinned(context.Context) error { return ErrNotSupported }

func (m *plainMR) Bytes() []byte { m.mu.Lock(); defer m.mu.Unlock(); return m.b }

func (m *plainMR) set(b []byte) { m.mu.Lock(); defer m.mu.Unlock(); m.b = b }

// TestWaitWithoutWatch waits for memory of a device that does not tell of remote accesses.
func TestWaitWithoutWatch(t *testing.T) {
	for name, want := range map[string]struct {
		end func(*plainMR, context.CancelFunc)
		err error
	}{
		"written":      {func(m *plainMR, _ context.CancelFunc) { m.set([]byte{0, 7}) }, nil},
		"cancelled":    {func(_ *plainMR, cancel context.CancelFunc) { cancel() }, context.Canceled},
		"deregistered": {func(m *plainMR, _ context.CancelFunc) { m.set(nil) }, ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			drv := &plainMR{b: []byte{0, 0}}
			mr := &MR{pd: &PD{dev: &Device{}}, drv: drv}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			looks := 0
			ended := make(chan error, 1)
			go func() {
				ended <- mr.WaitFor(ctx, func(b []byte) bool {
					looks++
					if looks == 1 {
						time.AfterFunc(20*time.Millisecond, func() { want.end(drv, cancel) })
					}
					return b[1] == 7
				})
			}()
			if err := <-ended; !errors.Is(err, want.err) {
				t.Errorf("%v, want %v", err, want.err)
			}
			if looks < 2 {
				t.Errorf("%d looks", looks)
			}
		})
	}
}

// TestWaitPauses holds that on a device without CapWatch the pauses between polls of memory grow, up to a limit.
func TestWaitPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mr := &MR{pd: &PD{dev: &Device{}}, drv: &plainMR{b: []byte{0}}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		looks := 0
		err := mr.WaitFor(ctx, func([]byte) bool {
			looks++
			time.Sleep(DefaultSpin / 4) // a look takes time, as everything does
			return false
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if least := int(time.Second / (pollLast + DefaultSpin)); looks < least || looks > 2*least+64 {
			t.Errorf("%d looks in a second", looks)
		}
	})
}
