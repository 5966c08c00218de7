// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"fmt"
	"syscall"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// reclaim polls for sends that are done. writeMu and mu are held.
func (p *PacketConn) reclaim() { p.sent(p.swcs[:p.sendCQ.Poll(p.swcs[:])]) }

// sent takes back the slots of sends that have completed, and keeps the first error for
// WriteTo. What was flushed behind a send that failed is lost, as any datagram may be.
func (p *PacketConn) sent(wcs []verbs.WC) {
	for i := range wcs {
		wc := &wcs[i]
		p.free = append(p.free, int(wc.ID))
		if wc.Status == verbs.Success {
			continue
		}
		if wc.Status != verbs.WRFlushError && p.failed == nil {
			p.failed = datagramErr(wc.Status)
		}
		p.lost(wc.Status)
	}
}

// failure returns the error of a send that nobody has been told of.
func (p *PacketConn) failure() error {
	err := p.failed
	p.failed = nil
	return err
}

// lost sees to the queue pair after a work request has failed. A send that fails stops the
// sends of a UD queue pair and leaves it in SQE, where it still receives; RTS starts them
// again (IBTA 10.3.1.5). Nothing leads out of ERR but a new beginning, with which peers'
// datagrams would go astray: there the conn has failed.
func (p *PacketConn) lost(s verbs.Status) {
	switch p.qp.State() {
	case verbs.SQE:
		if err := p.qp.Modify(verbs.QPAttr{State: verbs.RTS}, verbs.MaskState); err != nil {
			p.fail(err)
		}
	case verbs.Err:
		p.fail(fmt.Errorf("%w: the queue pair is in the error state: %w", syscall.ENETDOWN, s.Err()))
	}
}

// fail makes all calls return err, and those that wait.
func (p *PacketConn) fail(err error) {
	if p.err != nil {
		return
	}
	p.err = err
	p.notify.call()
	p.read.wakeUp()
	p.write.wakeUp()
}

// datagramErr returns what a failed send means for its datagram.
func datagramErr(s verbs.Status) error {
	if s == verbs.LocalLengthError {
		return fmt.Errorf("%w: %w", syscall.EMSGSIZE, s.Err())
	}
	return s.Err()
}
