// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"runtime"
)

// Device is an open RDMA device. It is what ramjet.Open and the Open functions of the
// device packages return.
type Device struct {
	object
	drv    Driver
	events *eventQueue
	done   chan struct{} // closed with the device
}

// NewDevice makes a Device of a driver. Device packages call it, programs do not.
func NewDevice(drv Driver) *Device {
	d := &Device{drv: drv, events: newEventQueue(), done: make(chan struct{})}
	events := d.events // not d: the driver must not keep the Device alive
	drv.SetEventSink(func(t EventType, port int) { events.put(queuedEvent{typ: t, port: port}) })
	runtime.AddCleanup(d, func(drv Driver) { drv.Close() }, drv)
	return d
}

// Driver returns what implements the device.
func (d *Device) Driver() Driver { return d.drv }

// Query returns the attributes and limits of the device.
func (d *Device) Query() DeviceAttr { return d.drv.QueryDevice() }

// Name returns the device's name, such as "roce:192.0.2.7".
func (d *Device) Name() string { return d.drv.QueryDevice().Name }

// Port returns the attributes of a port; the first one is 1.
func (d *Device) Port(port int) (PortAttr, error) {
	a, err := d.drv.QueryPort(port)
	return a, wrap("query_port", err)
}

// GIDs returns the GID table of a port.
func (d *Device) GIDs(port int) ([]GIDEntry, error) {
	g, err := d.drv.GIDs(port)
	return g, wrap("query_gid", err)
}

// PKeys returns the partition key table of a port.
func (d *Device) PKeys(port int) ([]PKey, error) {
	p, err := d.drv.PKeys(port)
	return p, wrap("query_pkey", err)
}

// Clock returns the device's time, in the nanoseconds of [WC.Timestamp].
func (d *Device) Clock() uint64 { return d.drv.Clock() }

// Counter is a named count of something that happened on a device since it was opened.
type Counter struct {
	Name  string // as the kernel's drivers name it, where they have it
	Value uint64
}

// Counters returns what happened on the device, such as packets sent, retransmissions, and
// received packets that were dropped, by reason. The order is always the same.
func (d *Device) Counters() []Counter { return d.drv.Counters() }

// Event waits for the next asynchronous event of the device and of what was made from it.
func (d *Device) Event(ctx context.Context) (Event, error) { return d.events.get(ctx) }

// AllocPD allocates a protection domain.
func (d *Device) AllocPD() (*PD, error) {
	pd := &PD{dev: d}
	if err := pd.use("alloc_pd", &d.object); err != nil {
		return nil, err
	}
	var err error
	if pd.drv, err = d.drv.AllocPD(); err != nil {
		pd.unuse()
		return nil, wrap("alloc_pd", err)
	}
	return pd, nil
}

// Close frees the device and everything that was made from it: queue pairs vanish without
// a word to their peers, who see their retries run out. Closing twice is harmless.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	d.events.close()
	close(d.done)
	return d.drv.Close()
}

// wrap puts a driver's error into an OpError.
func wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*OpError); ok {
		return e
	}
	return &OpError{Op: op, Err: err}
}
