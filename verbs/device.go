// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"cmp"
	"context"
	"runtime"
	"slices"
)

// Device is an open RDMA device. It is what ramjet.Open and the Open functions of the
// device packages return.
type Device struct {
	object
	drv       Driver
	events    *eventQueue
	done      chan struct{} // closed with the device
	closeDone chan struct{} // closed once Close has finished
	onClose   []func()      // called before Close
	locals    deviceLocals
}

// NewDevice makes a Device of a driver. Device packages call it, programs do not.
func NewDevice(drv Driver) *Device {
	d := &Device{drv: drv, events: newEventQueue(), done: make(chan struct{}), closeDone: make(chan struct{})}
	events := d.events // not d: the driver must not keep the Device alive
	drv.SetEventSink(func(t EventType, port int) {
		events.put(queuedEvent{typ: t, port: port})
		events.notifyWatchers(t, port)
	})
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

// Metrics returns what is measured on the device since it was opened, such as packets sent,
// retransmissions, and received packets that were dropped, by reason. The order is always the same.
//
// It waits for nothing that the device does: the values are some milliseconds old at most, while the
// device has a processor. ErrNotSupported: the device measures nothing.
func (d *Device) Metrics() ([]Metric, error) {
	m, err := d.drv.Metrics()
	return m, wrap("metrics", err)
}

// QPStats returns the state and statistics of every queue pair of the device, in the order of their
// numbers; see [QP.Stats].
func (d *Device) QPStats() ([]QPStats, error) {
	s, err := d.drv.QPStats()
	slices.SortFunc(s, func(a, b QPStats) int { return cmp.Compare(a.QPN, b.QPN) })
	return s, wrap("qp_stats", err)
}

// Event waits for the next asynchronous event of the device and of the objects created on it.
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

// OnEvent registers f to be called with each event of the device as a whole, besides the program that fetches
// them. It lets connection managers follow their ports. f must not wait.
func (d *Device) OnEvent(f func(t EventType, port int)) { d.events.watch(f) }

// OnClose registers f to be called when the device is about to be closed. By then everything that
// was posted has been sent as far as possible without waiting, and f may still send. It lets
// connection managers say goodbye. f must neither wait nor call Close. OnClose returns ErrClosed if
// the device is already closed.
func (d *Device) OnClose(f func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return opErr("on_close", ErrClosed, "")
	}
	d.onClose = append(d.onClose, f)
	return nil
}

// Close frees the device and everything that was created on it. Peers of queue pairs that package
// cm connected are told. All others get no message, and run into their retry limits. Closing twice is
// harmless: a second call returns when the device is gone.
func (d *Device) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		<-d.closeDone
		return nil
	}
	defer close(d.closeDone)
	d.closed = true // nothing new is created
	leave := d.onClose
	d.onClose = nil
	d.mu.Unlock()
	if l, ok := d.drv.(Drainer); ok && len(leave) > 0 {
		l.Drain()
	}
	for _, f := range leave {
		f()
	}
	d.events.close()
	close(d.done)
	return d.drv.Close() // waits, so without the lock: others are releasing what depends on the device
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
