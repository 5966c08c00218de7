// SPDX-License-Identifier: Apache-2.0

package softdev_test

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/pin"
	"github.com/ramjet-rdma/ramjet/internal/testkit/memhub"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// register registers n bytes in a way that this system may not have.
func (s *side) register(n int, opt verbs.RegOption) *verbs.MR {
	s.T.Helper()
	mr, err := s.PD.RegMR(make([]byte, n), verbs.LocalWrite, opt)
	if errors.Is(err, verbs.ErrNotSupported) || errors.Is(err, verbs.ErrPinLimit) {
		s.T.Skip(err)
	}
	s.OK(err)
	return mr
}

// TestPinnedEnds holds that the pinning of memory ends with its region.
func TestPinnedEnds(t *testing.T) {
	const n = 1 << 18
	for name, opt := range map[string]verbs.RegOption{"pinned": verbs.Pinned(), "pipelined": verbs.Pipelined(4096),
		"deferred": verbs.Deferred()} {
		t.Run(name, func(t *testing.T) {
			var h memhub.Hub
			s := newSide(t, &h)
			mr := s.register(n, opt)
			if held := pin.Held(); held < n {
				t.Errorf("%d bytes are pinned", held)
			}
			s.OK(mr.Rereg(verbs.ReregTranslation, nil, make([]byte, 2*n), 0))
			if held := pin.Held(); held < 2*n || held >= 3*n {
				t.Errorf("%d bytes are pinned after the memory changed", held)
			}
			other, err := s.Dev.AllocPD()
			s.OK(err)
			s.OK(mr.Rereg(verbs.ReregPD|verbs.ReregAccess, other, nil, 0))
			if held := pin.Held(); held < 2*n {
				t.Errorf("%d bytes are pinned after the access changed", held)
			}
			s.OK(mr.Close())
			if held := pin.Held(); held != 0 {
				t.Errorf("%d bytes are still pinned", held)
			}
			if err := mr.WaitPinned(t.Context()); !errors.Is(err, verbs.ErrClosed) {
				t.Error(err)
			}
			late := s.register(n, opt)
			s.OK(s.Dev.Close())
			s.OK(late.Close())
			if held := pin.Held(); held != 0 {
				t.Errorf("%d bytes are still pinned", held)
			}
			if _, err := s.PD.RegMR(make([]byte, n), 0, opt); !errors.Is(err, verbs.ErrClosed) {
				t.Errorf("on a closed device: %v", err)
			}
			if held := pin.Held(); held != 0 {
				t.Errorf("%d bytes are pinned for a region that there is not", held)
			}
		})
	}
}

// TestPinnedOrphan holds that a region that is never closed ends with its device.
func TestPinnedOrphan(t *testing.T) {
	func() {
		var h memhub.Hub
		s := newSide(t, &h)
		s.register(1<<18, verbs.Pinned())
		runtime.GC()
		if pin.Held() < 1<<18 {
			t.Error("a region of an open device is not pinned any more")
		}
		s.OK(s.Dev.Close())
	}()
	for end := time.Now().Add(2 * time.Minute); pin.Held() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes are still pinned", pin.Held())
		}
		runtime.GC()
	}
}
