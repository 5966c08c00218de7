// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	"github.com/ramjet-rdma/ramjet/internal/system/pollwait"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// cableWaiter has a device wait at the socket of its adapter's cable, and receive there itself: the waiting thread
// moves the data, and no other thread is woken. It is the fabric.Waiter of the device, once that is open.
type cableWaiter struct {
	socket    atomic.Pointer[cableSocket] // nil: the device is not open
	receiving atomic.Int32                // how many receive, and then look at the adapter
}

// serve makes the device of this waiter receive at a socket.
func (w *cableWaiter) serve(s *cableSocket) {
	s.drive()
	w.socket.Store(s)
}

// receive handles datagrams that have come.
func (w *cableWaiter) receive() {
	if s := w.socket.Load(); s != nil {
		w.receiving.Add(1)
		s.receive() // errors: of a closed socket, which Wait returns, and of lost datagrams
		w.receiving.Add(-1)
	}
}

// Wait implements fabric.Waiter.
func (w *cableWaiter) Wait(ready func() bool) error {
	s := w.socket.Load()
	switch {
	case ready():
		return nil
	case s == nil:
		return fabric.ErrClosed
	}
	return s.sock.Wait()
}

// SetDeadline implements fabric.Waiter.
func (w *cableWaiter) SetDeadline(t time.Time) {
	if s := w.socket.Load(); s != nil {
		s.sock.SetDeadline(t)
	}
}

// Wake implements fabric.Waiter.
func (w *cableWaiter) Wake() {
	if s := w.socket.Load(); s != nil {
		s.sock.Wake()
	}
}

// Close implements fabric.Waiter. The cable closes the socket.
func (w *cableWaiter) Close() {}

// CanPark and Park implement softdev.Parker.
func (w *cableWaiter) CanPark() bool {
	s := w.socket.Load()
	return s != nil && s.sock.CanPark()
}

func (w *cableWaiter) Park(d time.Duration) { w.socket.Load().sock.Park(d) }

// Pollable, BeginWait and EndWait implement softdev.PollWaiter, without the conditions that end a wait.
func (w *cableWaiter) Pollable() bool {
	s := w.socket.Load()
	return s != nil && s.sock.Pollable()
}

func (w *cableWaiter) BeginWait(_ bool, at *driver.PollSet) bool {
	return w.socket.Load().sock.BeginWait(false, (*pollwait.Set)(at))
}

func (w *cableWaiter) EndWait(readable bool) { w.socket.Load().sock.EndWait(readable) }

// cableDriver is the driver of a joined adapter. A device that receives need not be woken: it looks at the
// adapter then.
type cableDriver struct {
	*port
	waiter *cableWaiter
}

// Wake implements fabric.Driver.
func (d cableDriver) Wake() {
	if d.waiter.receiving.Load() == 0 {
		d.waiter.Wake()
	}
}
