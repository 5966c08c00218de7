// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// ActAsNIC makes the device as strict as a NIC and the specification (docs/nic.md), for as long as it is open. It
// returns an error once the device has queues.
func (d *Device) ActAsNIC() error {
	d.Lock()
	defer d.Unlock()
	if n := d.Counts.completionQueues.n.Load() + d.Counts.receiveQueues.n.Load(); n > 0 {
		return fmt.Errorf("%w: the device has %d queues: it becomes a NIC before there are any", verbs.ErrBusy, n)
	}
	d.shared.NIC = true
	d.nic.Store(true)
	d.shared.SinkAccess = d.QueryDevice().SinkAccess
	return nil
}

// IsNIC reports whether it is.
func (d *Device) IsNIC() bool { return d.nic.Load() }

// strictAttr limits the attributes of a device to those of NICs of its protocol.
func strictAttr(a *verbs.DeviceAttr) {
	if a.Transport == verbs.TransportIWARP {
		a.MaxSGERead = 1 // a READ's data go to one place (RFC 5040 section 5.2), which the response names
		a.SinkAccess |= verbs.RemoteWrite
	}
}

// withhold clears the fields that mean nothing in the completion of a work request that failed (IBTA 11.4.2.1).
func withhold(wc *verbs.WC) {
	if wc.Status != verbs.StatusSuccess {
		*wc = verbs.WC{ID: wc.ID, Status: wc.Status, QPN: wc.QPN, VendorErr: wc.VendorErr}
	}
}

// breakUsers puts the queue pairs of a completion queue that has overflowed into the error state.
func (l *Lane) breakUsers(of *queue.CQ) {
	for _, c := range l.dev.objects.cqs.All() {
		if c.Queue != of {
			continue
		}
		for _, q := range l.dev.objects.qps.All() {
			if q.numbers.sendCQ == c.num || q.numbers.recvCQ == c.num {
				l.breakFatally(q.self)
			}
		}
	}
}
