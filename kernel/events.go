// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/system/ibverbs"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// channel is a descriptor that tells of events, in Go's poller: a goroutine that waits has no thread.
type channel struct {
	file *os.File      // a duplicate: the library closes its own
	done chan struct{} // closed when nobody reads any more
	c    uintptr       // struct ibv_comp_channel; 0: the context's asynchronous events
}

// open begins to call read whenever the descriptor may have an event. read takes one without waiting, and
// returns false if there is none. It returns an error if there will be none any more, and then lost is called.
func (ch *channel) open(fd int, name string, read func() (bool, error), lost func()) error {
	if err := syscall.SetNonblock(fd, true); err != nil {
		return err
	}
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	ch.file = os.NewFile(uintptr(dup), name)
	ch.done = make(chan struct{})
	raw, err := ch.file.SyscallConn()
	if err != nil {
		ch.file.Close()
		return err
	}
	go func() {
		defer close(ch.done)
		var end error
		for end == nil {
			if err := raw.Read(func(uintptr) bool {
				var got bool
				for got, end = read(); got && end == nil; {
					got, end = read()
				}
				return end != nil
			}); err != nil {
				return // closed
			}
		}
		lost()
	}()
	return nil
}

// close ends the reading and waits for its end.
func (ch *channel) close() {
	if ch.file != nil {
		ch.file.Close()
		<-ch.done
	}
}

// startEvents begins to read both channels.
func (d *device) startEvents() error {
	c, errno := d.lib.CallErrno(d.lib.CreateCompChannel, d.ctx)
	if err := madeOf(c, errno); err != nil {
		return fmt.Errorf("create_comp_channel: %w", err)
	}
	d.channel.c = c
	fd := int(ibverbs.Pointer[ibverbs.CompChannel](c).FD)
	if err := d.channel.open(fd, "completion channel of "+d.name, d.completionReader(), d.lost); err != nil {
		d.lib.CallErrno(d.lib.DestroyCompChannel, c)
		return fmt.Errorf("the completion channel: %w", err)
	}
	fd = int(*ibverbs.Pointer[int32](d.ctx + ibverbs.CtxAsyncFD))
	if err := d.async.open(fd, "asynchronous events of "+d.name, d.eventReader(), d.lost); err != nil {
		d.channel.close()
		d.lib.CallErrno(d.lib.DestroyCompChannel, c)
		return fmt.Errorf("asynchronous events: %w", err)
	}
	return nil
}

func (d *device) stopEvents() {
	d.channel.close()
	d.async.close()
	d.lib.CallErrno(d.lib.DestroyCompChannel, d.channel.c)
}

// lost tells all that the kernel has taken the device away, or its driver: nothing completes any more. Which of the
// two channels ends first is open.
func (d *device) lost() {
	d.removal.Do(func() {
		d.removed.Store(true)
		d.mu.Lock()
		sink, qps, cqs := d.sink, slices.Collect(maps.Values(d.qps)), slices.Collect(maps.Values(d.cqs))
		d.mu.Unlock()
		if sink != nil {
			sink(verbs.EventDeviceFatal, 0)
		}
		for _, q := range qps {
			q.happened(verbs.EventQPFatal)
		}
		for _, q := range cqs {
			q.events.Completion() // goroutines that wait find the error
		}
	})
}

// completionReader returns the function that takes one completion event, acknowledges it at once, so that queues can be
// destroyed, and tells the queue.
func (d *device) completionReader() func() (bool, error) {
	event := new(struct{ cq, context uint64 })
	return func() (bool, error) {
		r, errno := d.lib.CallErrno(d.lib.GetCQEvent, d.channel.c, uintptr(unsafe.Pointer(&event.cq)),
			uintptr(unsafe.Pointer(&event.context)))
		if int32(r) != 0 {
			return again(errno)
		}
		d.mu.Lock()
		q := d.cqs[uintptr(event.cq)]
		d.mu.Unlock()
		ibverbs.Call(d.lib.AckCQEvents, uintptr(event.cq), 1, 0)
		if q != nil {
			q.armed.Store(false)
			q.events.Completion()
		}
		return true, nil
	}
}

// again tells a channel without an event from one that has ended.
func again(errno syscall.Errno) (bool, error) {
	if errno == syscall.EAGAIN || errno == syscall.EINTR || errno == 0 {
		return false, nil
	}
	return false, errno
}

// eventReader returns the function that takes one asynchronous event, acknowledges it, and passes it on.
func (d *device) eventReader() func() (bool, error) {
	event := new(ibverbs.AsyncEvent)
	return func() (bool, error) {
		r, errno := d.lib.CallErrno(d.lib.GetAsyncEvent, d.ctx, uintptr(unsafe.Pointer(event)))
		if int32(r) != 0 {
			return again(errno)
		}
		tell := d.receiver(verbs.EventType(event.EventType), uintptr(event.ElementCQ))
		ibverbs.Call(d.lib.AckAsyncEvent, uintptr(unsafe.Pointer(event)), 0, 0)
		if tell != nil {
			tell()
		}
		return true, nil
	}
}

// receiver returns the function that tells the object of an event; nil: it is gone. The numbers of package verbs are
// C's, as a test holds.
func (d *device) receiver(t verbs.EventType, element uintptr) func() {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch t {
	case verbs.EventCQError:
		if q := d.cqs[element]; q != nil {
			return q.overflowed
		}
	case verbs.EventQPFatal, verbs.EventQPRequestError, verbs.EventQPAccessError, verbs.EventCommEstablished,
		verbs.EventSQDrained, verbs.EventPathMigrated, verbs.EventPathMigrateError, verbs.EventQPLastWQEReached:
		if q := d.qps[element]; q != nil {
			return func() { q.happened(t) }
		}
	case verbs.EventSRQError, verbs.EventSRQLimitReached:
		if q := d.srqs[element]; q != nil {
			return func() { q.events(t) }
		}
	default:
		sink, port := d.sink, int(uint32(element))
		if t == verbs.EventDeviceFatal {
			port = 0
		}
		if sink != nil && t <= verbs.EventGIDChange {
			return func() { sink(t, port) }
		}
	}
	return nil
}
