// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include "cmobjects.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/cm"
)

// cmChannel is an event channel behind a file descriptor.
type cmChannel struct {
	*cm.EventChannel
	events  *fdQueue[cmEvent]
	stop    context.CancelFunc
	stopped chan struct{}
	moving  sync.Mutex // held while an event moves from one queue to the other
}

// cmEvent is an event for a program: one of package cm, or one of an id that has no device.
type cmEvent struct {
	*cm.Event
	about  *cmID // the id concerned; nil: the Event names it
	status int   // if about is set
	arg    uint64
}

// pump brings events to the file descriptor.
func (ch *cmChannel) pump(ctx context.Context) {
	defer close(ch.stopped)
	for ch.Wait(ctx) == nil {
		ch.moving.Lock()
		if e, ok := ch.TryGet(); ok {
			ch.events.push(cmEvent{Event: e})
		}
		ch.moving.Unlock()
	}
}

// cmID is a struct rdma_cm_id. It has no device until it is bound to a device's address. Bound to
// an address that stands for several devices, or for none, it has an id for each of them.
type cmID struct {
	c  unsafe.Pointer // C's struct
	ps cm.PortSpace

	mu      sync.Mutex
	channel *cmChannel
	ids     []*cm.ID
	devices []*device
	several netip.AddrPort // bound to this address, which is no device's; not valid: it is not
	only6   bool           // :: does not stand for devices of IPv4
	listens bool
	setup   []func(*cm.ID) error
}

// askAgain is how long a request is repeated if no listener has a port to which another
// connection is established. perftest's client with -R opens its second connection without waiting
// for the server to listen again, and does not survive a rejection.
const askAgain = 5 * time.Second

var (
	cmChannels = newTable[cmChannel]()
	cmIDs      = newTable[cmID]()

	// cmOwners maps package cm's ids to C's structs.
	cmOwners sync.Map // *cm.ID to *cmID
)

//export rj_cm_create_channel
func rj_cm_create_channel(h *C.uint64_t, fd *C.int) C.int {
	q, err := newFDQueue[cmEvent]()
	if err != nil {
		return errno(err)
	}
	ch := &cmChannel{EventChannel: cm.NewEventChannel(), events: q, stopped: make(chan struct{})}
	var ctx context.Context
	ctx, ch.stop = context.WithCancel(context.Background())
	go ch.pump(ctx)
	*h, *fd = C.uint64_t(cmChannels.put(ch)), C.int(q.fd)
	return ok
}

//export rj_cm_destroy_channel
func rj_cm_destroy_channel(h C.uint64_t) C.int {
	ch := cmChannels.get(uint64(h))
	if ch == nil {
		return enoent
	}
	ch.stop()
	ch.Close()
	ch.moving.Lock()
	ch.events.remove(dropRequest)
	ch.events.close()
	ch.moving.Unlock()
	cmChannels.drop(uint64(h))
	return ok
}

// dropRequest ends the request of an event that will not be fetched.
func dropRequest(e cmEvent) bool {
	if e.Type == cm.ConnectRequest {
		e.ID.Close()
	}
	return true
}

//export rj_cm_create_id
func rj_cm_create_id(chh C.uint64_t, c *C.struct_rj_cm_id, ps C.int, h *C.uint64_t) C.int {
	ch := cmChannels.get(uint64(chh))
	if ch == nil {
		return enoent
	}
	switch cm.PortSpace(ps) {
	case cm.TCP, cm.UDP, cm.IB, cm.IPoIB:
	default:
		return einval
	}
	*h = C.uint64_t(cmIDs.put(&cmID{c: unsafe.Pointer(c), ps: cm.PortSpace(ps), channel: ch}))
	return ok
}

//export rj_cm_adopt
func rj_cm_adopt(c *C.struct_rj_cm_id) C.int {
	id := cmIDs.get(uint64(c.handle))
	if id == nil {
		return enoent
	}
	id.mu.Lock()
	id.c = unsafe.Pointer(c)
	id.mu.Unlock()
	return ok
}

//export rj_cm_destroy_id
func rj_cm_destroy_id(h C.uint64_t) C.int {
	id := cmIDs.get(uint64(h))
	if id == nil {
		return enoent
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	for _, i := range id.ids {
		i.Close()
		cmOwners.Delete(i) // from here on its events are not counted
	}
	id.channel.moving.Lock()
	id.channel.events.remove(func(e cmEvent) bool { return id.concerns(e) && dropRequest(e) })
	id.channel.moving.Unlock()
	for i := range id.ids {
		id.devices[i].release()
	}
	cmIDs.drop(uint64(h))
	return ok
}

// concerns reports whether an event is one of the id's.
func (id *cmID) concerns(e cmEvent) bool {
	for _, i := range id.ids {
		if e.ID == i || e.Listener == i {
			return true
		}
	}
	return e.about == id
}

// open opens the id's counterpart on a device. Its lock is held.
func (id *cmID) open(name string) (*cm.ID, error) {
	d, err := acquire(name)
	if err != nil {
		fmt.Fprintln(os.Stderr, err) // as ibv_open_device does: the errno does not say which fault is not supported
		return nil, err
	}
	one, err := cm.NewID(id.channel.EventChannel, d.Device, id.ps)
	if err != nil {
		d.release()
		return nil, err
	}
	one.SetConnectRetry(askAgain)
	for _, f := range id.setup {
		if err := f(one); err != nil {
			one.Close()
			d.release()
			return nil, err
		}
	}
	id.add(one, d)
	return one, nil
}

func (id *cmID) add(one *cm.ID, d *device) {
	id.ids = append(id.ids, one)
	id.devices = append(id.devices, d)
	cmOwners.Store(one, id)
}

// forget undoes open.
func (id *cmID) forget() {
	for i, one := range id.ids {
		cmOwners.Delete(one)
		one.Close()
		id.devices[i].release()
	}
	id.ids, id.devices, id.several = nil, nil, netip.AddrPort{}
}

// cmCall calls f with the only id of C's id.
func cmCall(h C.uint64_t, f func(*cmID, *cm.ID) error) C.int {
	id := cmIDs.get(uint64(h))
	if id == nil {
		return enoent
	}
	id.mu.Lock()
	var one *cm.ID
	if len(id.ids) > 0 {
		one = id.ids[0]
	}
	id.mu.Unlock()
	if one == nil {
		return einval
	}
	err := f(id, one)
	follow(one)
	return errno(err)
}

// follow copies the state to which package cm has brought an id's queue pair to its struct, as
// librdmacm's ibv_modify_qp does.
func follow(one *cm.ID) {
	if q := one.QP(); q != nil {
		objects.follow(q)
	}
}

// cmMigrating is held by a call that needs two channels.
var cmMigrating sync.Mutex

// rj_cm_migrate moves the id's events to another channel, including unfetched ones, in order, and
// with a listener's requests the events that follow them.
//
//export rj_cm_migrate
func rj_cm_migrate(h, chh C.uint64_t) C.int {
	id, ch := cmIDs.get(uint64(h)), cmChannels.get(uint64(chh))
	if id == nil || ch == nil {
		return enoent
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	from := id.channel
	if from == ch {
		return ok
	}
	cmMigrating.Lock()
	defer cmMigrating.Unlock()
	from.moving.Lock()
	defer from.moving.Unlock()
	ch.moving.Lock()
	defer ch.moving.Unlock()
	for _, one := range id.ids {
		if err := one.Migrate(ch.EventChannel); err != nil {
			return errno(err)
		}
	}
	id.channel = ch
	moved := map[*cm.ID]bool{}
	from.events.remove(func(e cmEvent) bool {
		if !id.concerns(e) && !moved[e.ID] {
			return false
		}
		if e.Type == cm.ConnectRequest {
			moved[e.ID] = true
			e.ID.Migrate(ch.EventChannel)
		}
		ch.events.push(e)
		return true
	})
	return ok
}

//export rj_cm_bind
func rj_cm_bind(h C.uint64_t, addr *C.struct_sockaddr) C.int {
	id := cmIDs.get(uint64(h))
	at, valid := addrPort(addr)
	if id == nil || !valid {
		return einval
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.bound() {
		return einval
	}
	return errno(id.bindAs(at))
}

// bound reports whether the id has an address.
func (id *cmID) bound() bool { return len(id.ids) > 0 || id.several.IsValid() }

// bindAs binds the id as rdma_bind_addr does.
func (id *cmID) bindAs(at netip.AddrPort) error {
	err := id.bind(at)
	if at.Addr().IsLoopback() && errors.Is(err, syscall.ENODEV) {
		err = id.bindSeveral(at)
	}
	if (at.Addr().IsLoopback() || at.Addr().IsUnspecified()) && errors.Is(err, syscall.ENODEV) {
		// As in the kernel, this only takes a port: programs try how their own host can be
		// addressed, and listen elsewhere.
		if at.Port() == 0 {
			at = netip.AddrPortFrom(at.Addr(), firstEphemeral+uint16(rand.IntN(1<<16-firstEphemeral)))
		}
		id.several, err = at, nil
	}
	if err != nil {
		id.forget()
	}
	return err
}

// firstEphemeral is the first of the ports that are assigned if a program does not ask for one.
const firstEphemeral = 32768

// bind binds the id to the address of a device, or to all devices that a wildcard stands for. It
// returns ENODEV if there is none.
func (id *cmID) bind(at netip.AddrPort) error {
	if at.Addr().IsUnspecified() {
		return id.bindSeveral(at)
	}
	one, err := id.openAddr(at.Addr())
	if err != nil {
		return err
	}
	return one.Bind(at)
}

// bindSeveral binds the id to one port of all devices that an address stands for.
func (id *cmID) bindSeveral(at netip.AddrPort) error {
	var failed error = syscall.ENODEV
	for _, d := range listedDevices() {
		addr, ok := addrOf(d)
		if !ok || !standsFor(at.Addr(), addr, id.only6) {
			continue
		}
		one, err := id.open(d.Name)
		if err != nil {
			failed = err // others may have the address
			continue
		}
		if err := one.Bind(netip.AddrPortFrom(addr, at.Port())); err != nil {
			return err
		}
		at = netip.AddrPortFrom(at.Addr(), one.LocalAddr().Port())
	}
	if len(id.ids) == 0 {
		return failed
	}
	id.several = at
	return nil
}

// standsFor reports whether an address that is no device's stands for a device's: a wildcard for
// addresses of its family, :: also for IPv4 unless only6 is set, and a loopback address for the
// devices of the loopback interface.
func standsFor(at, device netip.Addr, only6 bool) bool {
	same := at.Is4() == device.Is4()
	if at.IsLoopback() {
		return same && device.IsLoopback()
	}
	return at.IsUnspecified() && (same || at.Is6() && !only6)
}

// openAddr opens the id's counterpart on the device of an address.
func (id *cmID) openAddr(addr netip.Addr) (*cm.ID, error) {
	name, err := deviceOf(addr)
	if err != nil {
		return nil, err
	}
	return id.open(name)
}

// setOnly6 sets whether :: stands for IPv6 alone, even if the id is already bound to it.
func (id *cmID) setOnly6(on bool) error {
	if id.listens {
		return syscall.EINVAL
	}
	id.only6 = on
	if !id.several.Addr().Is6() || id.several.Addr().IsLoopback() {
		return nil
	}
	at := id.several
	id.forget()
	if err := id.bindSeveral(at); err != nil && !errors.Is(err, syscall.ENODEV) {
		return err
	}
	id.several = at
	return nil
}

//export rj_cm_resolve_addr
func rj_cm_resolve_addr(h C.uint64_t, src, dst *C.struct_sockaddr, timeout C.int) C.int {
	id := cmIDs.get(uint64(h))
	to, valid := addrPort(dst)
	if id == nil || !valid {
		return einval
	}
	var from netip.AddrPort
	if src != nil {
		if from, valid = addrPort(src); !valid {
			return einval
		}
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	if len(id.ids) == 0 || id.several.IsValid() {
		err := id.route(from, to)
		if errors.Is(err, syscall.ENODEV) { // there is a route, but no device on it
			id.tell(cm.AddrError, -int(errno(err)), 0)
			return ok
		}
		if err != nil {
			return errno(err)
		}
	}
	return errno(id.ids[0].ResolveAddr(from, to, milliseconds(timeout)))
}

// tell delivers an event that is not a device's. The id's lock is held.
func (id *cmID) tell(t cm.EventType, status int, arg uint64) {
	id.channel.events.push(cmEvent{Event: &cm.Event{Type: t}, about: id, status: status, arg: arg})
}

//export rj_cm_write_event
func rj_cm_write_event(h C.uint64_t, typ, status C.int, arg C.uint64_t) C.int {
	id := cmIDs.get(uint64(h))
	if id == nil {
		return enoent
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	if cmIDs.get(uint64(h)) == nil {
		return enoent // destroyed meanwhile
	}
	id.tell(cm.EventType(typ), int(status), uint64(arg))
	return ok
}

// route gives the id the device on the route to an address.
func (id *cmID) route(from, to netip.AddrPort) error {
	var name string
	var err error
	if from.Addr().IsValid() && !from.Addr().IsUnspecified() {
		name, err = deviceOf(from.Addr())
	} else {
		name, err = deviceTo(to.Addr())
	}
	if err != nil {
		return err
	}
	if id.several.IsValid() { // keep the port
		from = netip.AddrPortFrom(netip.Addr{}, id.several.Port())
		id.forget()
	}
	one, err := id.open(name)
	if err != nil || from.Port() == 0 || from.Addr().IsValid() && !from.Addr().IsUnspecified() {
		return err
	}
	return one.Bind(netip.AddrPortFrom(netip.Addr{}, from.Port()))
}

func milliseconds(n C.int) time.Duration { return time.Duration(n) * time.Millisecond }

//export rj_cm_resolve_route
func rj_cm_resolve_route(h C.uint64_t, timeout C.int) C.int {
	return cmCall(h, func(_ *cmID, one *cm.ID) error { return one.ResolveRoute(milliseconds(timeout)) })
}

//export rj_cm_listen
func rj_cm_listen(h C.uint64_t, backlog C.int) C.int {
	id := cmIDs.get(uint64(h))
	if id == nil {
		return enoent
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	if !id.bound() { // any port of all devices
		if err := id.bindAs(netip.AddrPortFrom(netip.IPv4Unspecified(), 0)); err != nil {
			return errno(err)
		}
	}
	if len(id.ids) == 0 && id.several.Addr().IsLoopback() {
		return C.int(syscall.ENODEV) // no peer could reach it
	}
	for _, one := range id.ids {
		if err := one.Listen(int(backlog)); err != nil {
			return errno(err)
		}
	}
	id.listens = true
	return ok
}
