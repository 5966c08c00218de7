// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"errors"
	"fmt"
	"sync"
	"weak"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// maxCaptures limits the queue pairs that are captured at the same time. A ring takes less than 100 KiB.
const maxCaptures = 8

// captureKey identifies a captured queue pair.
type captureKey struct {
	dev weak.Pointer[verbs.Device]
	qpn verbs.QPN
}

// sharedRing is a ring, and how many share it.
type sharedRing struct {
	ring   *Ring
	shares int
	kept   bool // by the process itself, not for watchers
}

// watched returns how many queue pairs are captured for watchers only.
func watched() (n int) {
	for _, s := range captures {
		if !s.kept {
			n++
		}
	}
	return n
}

var (
	captureLock sync.Mutex
	captures    = map[captureKey]*sharedRing{}
)

// Capture is a watcher's share in the last packets of a queue pair.
type Capture struct {
	qp    captureKey
	ring  *Ring
	close sync.Once
}

// StartCapture captures the last packets of a queue pair of this process until Close. Watchers of the same queue
// pair share a ring.
func StartCapture(device string, n verbs.QPN) (*Capture, error) {
	captureLock.Lock()
	defer captureLock.Unlock()
	err := fmt.Errorf("the process has no device %q with queue pair %d: it may have been destroyed", device, n)
	for _, e := range devices() {
		if e.dev.Name() != device {
			continue
		}
		of := captureKey{weak.Make(e.dev), n}
		if k := captures[of]; k != nil {
			k.shares++
			return &Capture{qp: of, ring: k.ring}, nil
		}
		s, ok := driver.DeviceOf(e.dev).(PacketSource)
		if !ok {
			return nil, fmt.Errorf("%s: what the packets of this kind of device are, the process does not see", device)
		}
		if watched() >= maxCaptures {
			return nil, fmt.Errorf("the packets of %d queue pairs of the process are watched, which is the most: close another ladder first", maxCaptures)
		}
		r := newRing(ringSize)
		switch kerr := s.CapturePackets(n, r); {
		case errors.Is(kerr, verbs.ErrInvalid): // another device of this name has it
		case kerr != nil:
			err = kerr
		default:
			captures[of] = &sharedRing{r, 1, false}
			return &Capture{qp: of, ring: r}, nil
		}
	}
	return nil, err
}

// Keep captures the last packets of a queue pair for the process itself, at most size. Watchers see as many meanwhile.
// It returns nil if the device has no packets.
func Keep(dev *verbs.Device, n verbs.QPN, size int) *Capture {
	s, ok := driver.DeviceOf(dev).(PacketSource)
	if !ok {
		return nil
	}
	captureLock.Lock()
	defer captureLock.Unlock()
	of, r := captureKey{weak.Make(dev), n}, newRing(size)
	if s.CapturePackets(n, r) != nil {
		return nil
	}
	captures[of] = &sharedRing{r, 1, true}
	return &Capture{qp: of, ring: r}
}

// Close ends the watcher's share. The last one ends the capture.
func (k *Capture) Close() {
	k.close.Do(func() {
		captureLock.Lock()
		defer captureLock.Unlock()
		shared := captures[k.qp]
		if shared == nil || shared.ring != k.ring {
			return // of a queue pair that has got the number of an earlier one
		}
		if shared.shares--; shared.shares > 0 {
			return
		}
		delete(captures, k.qp)
		if dev := k.qp.dev.Value(); dev != nil {
			_ = driver.DeviceOf(dev).(PacketSource).CapturePackets(k.qp.qpn, nil) // the queue pair may be gone
		}
	})
}

// Last returns the last packets, most at most.
func (k *Capture) Last(most int) Packets {
	p := Packets{Wire: k.ring.Wire}
	p.Packets, p.Seen = k.ring.Last(most)
	return p
}
