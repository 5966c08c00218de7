// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include "objects.h"
import "C"

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/internal/cdevices"
	"github.com/ramjet-rdma/ramjet/iwarp"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// device is an open device, which all contexts of the process share: an address can be
// opened only once in a process.
type device struct {
	*verbs.Device
	name  string // as C knows it
	users int
	stop  context.CancelFunc // ends watch

	mu       sync.Mutex
	contexts map[*deviceContext]struct{}
	xrcds    map[inode]*xrcd
}

// deviceContext is what ibv_open_device returns.
type deviceContext struct {
	dev    *device
	events *fdQueue[asyncEvent]
}

// asyncEvent is an event for C: its object's struct, or a port.
type asyncEvent struct {
	typ      verbs.EventType
	object   unsafe.Pointer
	reported *uint32 // its count
	port     int
}

var (
	contexts = newTable[deviceContext]()

	devicesMu sync.Mutex
	devices   = map[string]*device{} // by C's name
)

// rj_devices lists the devices. One that cannot exist is left out, with a word on stderr if
// the program's user has asked for it.
//
//export rj_devices
func rj_devices(list *C.struct_rj_device_info, room C.int) C.int {
	_, asked := os.LookupEnv(cdevices.Environment)
	out := unsafe.Slice(list, int(room))
	n := 0
	listed, err := cdevices.List(os.LookupEnv(cdevices.Environment))
	if err != nil {
		fmt.Fprintf(os.Stderr, "ramjet: RAMJET_DEVICES: %v\n", err)
	}
	for _, d := range listed {
		kind, addr, _ := strings.Cut(d.Address, ":")
		var guid uint64
		var err error
		switch kind {
		case "roce":
			guid, err = roce.GUID(addr)
		case "iwarp", "iwarps", "iwarp+sctp":
			guid, err = iwarp.GUID(addr)
		default:
			err = fmt.Errorf("%q: C programs can use devices of the kinds roce, iwarp, iwarps and iwarp+sctp", d.Address)
		}
		if err != nil {
			if asked {
				fmt.Fprintf(os.Stderr, "ramjet: RAMJET_DEVICES: %v\n", err)
			}
			continue
		}
		if n < len(out) {
			text(out[n].name[:], d.Name)
			out[n].guid = C.uint64_t(be64(guid))
			if kind != "roce" {
				out[n].iwarp = 1
			}
		}
		n++
	}
	return C.int(n)
}

// text fills a C string.
func text(dst []C.char, s string) {
	n := min(len(s), len(dst)-1)
	for i := range n {
		dst[i] = C.char(s[i])
	}
	dst[n] = 0
}

// be64 is v as a number whose bytes in memory are those of v in network byte order.
func be64(v uint64) uint64 {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], v)
	return binary.NativeEndian.Uint64(b[:])
}

func be32(v uint32) uint32 {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], v)
	return binary.NativeEndian.Uint32(b[:])
}

func be16(v uint16) uint16 { return v<<8 | v>>8 }

//export rj_open
func rj_open(name *C.char, h *C.uint64_t, fd *C.int) C.int {
	d, err := acquire(C.GoString(name))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return errno(err)
	}
	q, err := newFDQueue[asyncEvent]()
	if err != nil {
		d.release()
		return errno(err)
	}
	c := &deviceContext{dev: d, events: q}
	d.mu.Lock()
	d.contexts[c] = struct{}{}
	d.mu.Unlock()
	*h, *fd = C.uint64_t(contexts.put(c)), C.int(q.fd)
	return ok
}

// acquire opens a device, or finds it open.
func acquire(name string) (*device, error) {
	devicesMu.Lock()
	defer devicesMu.Unlock()
	if d := devices[name]; d != nil {
		d.users++
		return d, nil
	}
	for _, l := range cdevices.Listed() {
		if l.Name != name {
			continue
		}
		v, err := ramjet.Open(l.Address)
		if err != nil {
			return nil, err
		}
		d := &device{Device: v, name: name, users: 1, contexts: map[*deviceContext]struct{}{}, xrcds: map[inode]*xrcd{}}
		var ctx context.Context
		ctx, d.stop = context.WithCancel(context.Background())
		go d.watch(ctx)
		devices[name] = d
		return d, nil
	}
	return nil, fmt.Errorf("ramjet: device %s is gone: %w", name, syscall.ENODEV)
}

func (d *device) release() {
	devicesMu.Lock()
	defer devicesMu.Unlock()
	if d.users--; d.users > 0 {
		return
	}
	delete(devices, d.name)
	d.stop()
	d.Close()
}

// watch brings the device's asynchronous events to the contexts that they are for.
func (d *device) watch(ctx context.Context) {
	for {
		e, err := d.Event(ctx)
		if err != nil {
			return
		}
		switch {
		case e.QP != nil:
			objects.push(e.QP, e.Type)
		case e.CQ != nil:
			objects.push(e.CQ, e.Type)
		case e.SRQ != nil:
			objects.push(e.SRQ, e.Type)
		case e.Port != 0 || e.Type == verbs.EventDeviceFatal:
			d.mu.Lock()
			for c := range d.contexts {
				c.events.push(asyncEvent{typ: e.Type, port: e.Port})
			}
			d.mu.Unlock()
		}
	}
}

// rj_close closes a context with all that is left of it, as the kernel does. left is then
// not 0: C's objects still point to the context.
//
//export rj_close
func rj_close(h C.uint64_t, left *C.int) C.int {
	c := contexts.get(uint64(h))
	if c == nil {
		return enoent
	}
	contexts.drop(uint64(h))
	qps.each(func(q *qp) {
		if q.context == c {
			q.leaveGroups()
		}
	})
	*left = C.int(objects.closeLeft(c))
	c.dev.mu.Lock()
	delete(c.dev.contexts, c)
	c.dev.mu.Unlock()
	c.events.close()
	c.dev.release()
	return ok
}

//export rj_next_async
func rj_next_async(h C.uint64_t, out *C.struct_ibv_async_event) C.int {
	c := contexts.get(uint64(h))
	if c == nil {
		return 0
	}
	e, found := c.events.pop(func(e asyncEvent) {
		if e.reported != nil {
			atomic.AddUint32(e.reported, 1)
		}
	})
	if !found {
		return 0
	}
	out.event_type = uint32(e.typ) // the same order
	out.element = [8]byte{}
	if e.object != nil {
		*(*unsafe.Pointer)(unsafe.Pointer(&out.element)) = e.object
	} else {
		*(*C.int)(unsafe.Pointer(&out.element)) = C.int(e.port)
	}
	return 1
}

//export rj_clock
func rj_clock(h C.uint64_t) C.uint64_t {
	if c := contexts.get(uint64(h)); c != nil {
		return C.uint64_t(c.dev.Clock())
	}
	return 0
}
