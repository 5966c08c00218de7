// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include <stdlib.h>
// #include <string.h>
// #include "objects.h"
import "C"

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/internal/device/cdevices"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// device is an open device, which all contexts of the process share, because an address can be
// opened only once in a process.
type device struct {
	*verbs.Device
	name  string // C's name
	nic   bool   // it acts as a NIC
	users int
	stop  context.CancelFunc // ends watch

	stopped chan struct{} // watch has ended

	mu       sync.Mutex
	contexts map[*deviceContext]struct{}
	xrcds    map[inode]*xrcd
}

// deviceContext is the context that ibv_open_device returns.
type deviceContext struct {
	dev    *device
	events *fdQueue[asyncEvent]
}

// asyncEvent is an event for C: the struct of its object, or a port.
type asyncEvent struct {
	typ      verbs.EventType
	object   unsafe.Pointer
	reported *uint32 // its event count
	port     int
}

var (
	contexts = newTable[deviceContext]()

	devicesMu sync.Mutex
	devices   = map[string]*device{} // by C's name

	deviceNames cdevices.Names
)

// rj_devices lists the devices. It omits a device that cannot exist, with a message on stderr if the
// program's user has named it.
//
//export rj_devices
func rj_devices(list *C.struct_rj_device_info, room C.int) C.int {
	names, asked := environment(cdevices.Environment)
	out := unsafe.Slice(list, int(room))
	n := 0
	all, err := deviceNames.List(names, asked)
	if err != nil {
		fmt.Fprintf(os.Stderr, "ramjet: RAMJET_DEVICES: %v\n", err)
	}
	for _, d := range all {
		var guid uint64
		name, err := kinds.Parse(d.Address)
		if err == nil {
			guid, err = name.GUID()
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
			out[n].node, out[n].transport = nodeOf(name.Kind.Transport)
		}
		n++
	}
	return C.int(n)
}

// rj_board_id writes the address of the device of a name, such as roce:192.0.2.7, in place of a board's id. It returns
// its length, or -1 if there is no such device.
//
//export rj_board_id
func rj_board_id(name, buf *C.char, size C.size_t) C.int {
	for _, d := range listedDevices() {
		if d.Name != C.GoString(name) || size == 0 {
			continue
		}
		text(unsafe.Slice(buf, min(int(size), cdevices.MaxText)), d.Address)
		return C.int(C.strlen(buf))
	}
	return -1
}

// nodeOf returns the node type and transport type that C programs see for a transport.
func nodeOf(t verbs.Transport) (node C.enum_ibv_node_type, transport C.enum_ibv_transport_type) {
	if t == verbs.TransportIWARP {
		return C.IBV_NODE_RNIC, C.IBV_TRANSPORT_IWARP
	}
	return C.IBV_NODE_CA, C.IBV_TRANSPORT_IB
}

// environment returns a variable of the program's environment. Go uses the memory where the
// environment was when the process started, which programs that change their title overwrite
// (setproctitle).
func environment(name string) (value string, set bool) {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	v := C.getenv(c)
	return C.GoString(v), v != nil
}

// listedDevices returns the program's devices, without errors in its environment.
func listedDevices() []cdevices.Device {
	all, _ := deviceNames.List(environment(cdevices.Environment))
	return all
}

// text fills a C string.
func text(dst []C.char, s string) {
	n := min(len(s), len(dst)-1)
	for i := range n {
		dst[i] = C.char(s[i])
	}
	dst[n] = 0
}

// be64 returns v as a number whose bytes in memory are in network byte order.
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

// acquire opens a device, or finds it already open.
func acquire(name string) (*device, error) {
	devicesMu.Lock()
	defer devicesMu.Unlock()
	if d := devices[name]; d != nil {
		d.users++
		return d, nil
	}
	for _, l := range listedDevices() {
		if l.Name != name {
			continue
		}
		v, err := ramjet.Open(l.Address, append(recorded(l.Address), loggedInC)...)
		if err != nil {
			return nil, err
		}
		d := &device{Device: v, name: name, nic: kinds.ActsAsNIC(v), users: 1, contexts: map[*deviceContext]struct{}{},
			xrcds: map[inode]*xrcd{}, stopped: make(chan struct{})}
		var ctx context.Context
		ctx, d.stop = context.WithCancel(context.Background())
		go func() {
			defer close(d.stopped)
			d.watch(ctx)
		}()
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

// watch forwards the device's asynchronous events to their contexts.
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

// rj_close closes a context with everything that is left of it, as the kernel does. left is then
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
	out.event_type = uint32(e.typ) // in the same order
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
