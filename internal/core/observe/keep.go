// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"errors"
	"fmt"
	"sync"
	"weak"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// maxKept is of how many queue pairs packets are kept at the same time. A ring has less than 100 KiB.
const maxKept = 8

// keptQP is a queue pair whose packets are kept.
type keptQP struct {
	dev weak.Pointer[verbs.Device]
	qpn verbs.QPN
}

// keeping is a ring, and how many share it.
type keeping struct {
	ring   *Ring
	shares int
}

var (
	keepLock sync.Mutex
	keeps    = map[keptQP]*keeping{}
)

// Kept is a watcher's share in the last packets of a queue pair.
type Kept struct {
	of    keptQP
	ring  *Ring
	ended sync.Once
}

// Keep has the last packets of a queue pair of this process kept until Close. Those who watch the same one share
// a ring. The error says why there are none.
func Keep(device string, n verbs.QPN) (*Kept, error) {
	keepLock.Lock()
	defer keepLock.Unlock()
	err := fmt.Errorf("the process has no device %q with queue pair %d: it may have been destroyed", device, n)
	for _, e := range devices() {
		if e.dev.Name() != device {
			continue
		}
		of := keptQP{weak.Make(e.dev), n}
		if k := keeps[of]; k != nil {
			k.shares++
			return &Kept{of: of, ring: k.ring}, nil
		}
		s, ok := e.dev.Driver().(PacketSource)
		if !ok {
			return nil, fmt.Errorf("%s: what the packets of this kind of device are, the process does not see", device)
		}
		if len(keeps) >= maxKept {
			return nil, fmt.Errorf("the packets of %d queue pairs of the process are watched, which is the most: close another ladder first", maxKept)
		}
		r := &Ring{}
		switch kerr := s.KeepPackets(n, r); {
		case errors.Is(kerr, verbs.ErrInvalid): // another device of this name has it
		case kerr != nil:
			err = kerr
		default:
			keeps[of] = &keeping{r, 1}
			return &Kept{of: of, ring: r}, nil
		}
	}
	return nil, err
}

// Close ends the share. The last one turns keeping off.
func (k *Kept) Close() {
	k.ended.Do(func() {
		keepLock.Lock()
		defer keepLock.Unlock()
		shared := keeps[k.of]
		if shared.shares--; shared.shares > 0 {
			return
		}
		delete(keeps, k.of)
		if dev := k.of.dev.Value(); dev != nil {
			_ = dev.Driver().(PacketSource).KeepPackets(k.of.qpn, nil) // the queue pair may be gone
		}
	})
}

// Last returns the last packets, most at most.
func (k *Kept) Last(most int) Packets {
	p := Packets{Wire: k.ring.Wire}
	p.Packets, p.Seen = k.ring.Last(most)
	return p
}
