// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/internal/hook"
)

var (
	local   = hook.Local.(func(*verbs.Device, any, func() any) any)
	onClose = hook.OnClose.(func(*verbs.Device, func()) error)
	onEvent = hook.OnEvent.(func(*verbs.Device, func(verbs.EventType, int)))
	watch   = hook.Watch.(func(*verbs.QP, func(verbs.EventType)))
)

// Local returns the value of key on a device; the first call creates it with make. It is for
// packages that have one object for each device, as package cm has its manager. The device keeps
// the value alive, and not the other way around: a goroutine that reaches the value must not reach
// the device, or a device that a program drops is never freed. Like a context's key, key is of a
// type of the caller's own.
func Local(d *verbs.Device, key any, make func() any) any { return local(d, key, make) }

// OnClose registers f to be called when a device is about to be closed. By then everything that was posted has been
// sent as far as possible without waiting, and f may still send. It lets connection managers send their disconnects. f
// must neither wait nor call Close. OnClose returns ErrClosed if the device is already closed.
func OnClose(d *verbs.Device, f func()) error { return onClose(d, f) }

// OnEvent registers f to be called with each event of a device as a whole, besides the program that fetches
// them. It lets connection managers follow their ports. f must not wait.
func OnEvent(d *verbs.Device, f func(t verbs.EventType, port int)) { onEvent(d, f) }

// EventQPBroken is an event for [Watch] alone: an error of the queue pair's own sends took it to ERR. The program
// learns of that from completions.
const EventQPBroken verbs.EventType = hook.EventQPBroken

// Watch has f called with a queue pair's asynchronous events, including EventQPBroken;
// [verbs.Device.Event] still returns the others. f must neither block nor call into the device. It is for
// packages that manage queue pairs of programs, as package cm does. nil ends it.
func Watch(qp *verbs.QP, f func(verbs.EventType)) { watch(qp, f) }
