// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"fmt"
	"syscall"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// reclaim polls for sends that are done. writeMu and mu are held.
func (p *PacketConn) reclaim() { p.sent(p.write.wcs[:p.write.cq.Poll(p.write.wcs[:])]) }

// sent frees the slots of completed sends, and keeps the first error for WriteTo. A datagram that was
// flushed behind a failed send is lost, as any datagram may be.
func (p *PacketConn) sent(wcs []verbs.WC) {
	for i := range wcs {
		wc := &wcs[i]
		p.write.free = append(p.write.free, int(wc.ID))
		if wc.Status == verbs.StatusSuccess {
			continue
		}
		if wc.Status != verbs.StatusWRFlushError && p.write.failed == nil {
			p.write.failed = datagramErr(wc.Status)
		}
		p.lost(wc.Status)
	}
}

// failure returns the error of a send that was not reported yet.
func (p *PacketConn) failure() error {
	err := p.write.failed
	p.write.failed = nil
	return err
}

// lost handles the queue pair after a work request has failed. A failed send stops the sends of a
// UD queue pair and leaves it in SQE, where it still receives; RTS starts them again (IBTA
// 10.3.1.5). From ERR it could only be reset, and peers' datagrams would go astray: there the conn
// has failed.
func (p *PacketConn) lost(s verbs.Status) {
	switch p.qp.State() {
	case verbs.StateSQE:
		if err := p.qp.Modify(verbs.QPAttr{State: verbs.StateRTS}, verbs.MaskState); err != nil {
			p.fail(err)
		}
	case verbs.StateError:
		p.fail(fmt.Errorf("%w: the queue pair is in the error state: %w", syscall.ENETDOWN, s.Err()))
	}
}

// fail makes all calls return err, including pending ones.
func (p *PacketConn) fail(err error) {
	if p.err != nil {
		return
	}
	p.err = err
	p.notify.call()
	p.read.wakeUp()
	p.write.wakeUp()
}

// datagramErr converts the status of a failed send to an error.
func datagramErr(s verbs.Status) error {
	if s == verbs.StatusLocalLengthError {
		return fmt.Errorf("%w: %w", syscall.EMSGSIZE, s.Err())
	}
	return s.Err()
}
