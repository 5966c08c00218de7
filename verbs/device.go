// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"cmp"
	"context"
	"runtime"
	"slices"

	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// Device is an open RDMA device. ramjet.Open and the Open functions of the device packages
// return it.
type Device struct {
	object
	drv       deviceDriver
	events    *eventQueue
	done      chan struct{}   // closed with the device
	closeDone chan struct{}   // closed once Close has finished
	onClose   []func()        // called before Close
	unclosed  runtime.Cleanup // closes the driver of a device that is garbage
	locals    deviceLocals
	calls     callLog // nil: calls are not logged
	checks    checker // nil: work requests are not checked; otherwise calls is set, too
}

// newDevice makes a Device of a driver.
func newDevice(drv deviceDriver) *Device {
	d := &Device{drv: drv, events: newEventQueue(), done: make(chan struct{}), closeDone: make(chan struct{})}
	events := d.events // not d: the driver must not keep the Device alive
	drv.SetEventSink(func(t EventType, port int) {
		events.put(queuedEvent{typ: t, port: port})
		events.notifyWatchers(t, port)
	})
	d.unclosed = runtime.AddCleanup(d, func(drv deviceDriver) { drv.Close() }, drv)
	return d
}

// Query returns the attributes and limits of the device.
func (d *Device) Query() DeviceAttr { return d.drv.QueryDevice() }

// Name returns the device's name, such as "roce:192.0.2.7".
func (d *Device) Name() string { return d.drv.QueryDevice().Name }

// Port returns the attributes of a port; the first one is 1.
func (d *Device) Port(port int) (PortAttr, error) {
	end := d.begin("ibv_query_port", callArg{"context", d}, callArg{"port_num", port})
	a, err := d.drv.QueryPort(port)
	err = wrap("query_port", err)
	end(nil, err, callArg{"attr", a})
	return a, err
}

// GIDs returns the GID table of a port.
func (d *Device) GIDs(port int) ([]GIDEntry, error) {
	end := d.begin("ibv_query_gid_table", callArg{"context", d}, callArg{"port_num", port})
	g, err := d.drv.GIDs(port)
	err = wrap("query_gid", err)
	end(len(g), err)
	return g, err
}

// PKeys returns the partition key table of a port.
func (d *Device) PKeys(port int) ([]PKey, error) {
	end := d.begin("ibv_query_pkey", callArg{"context", d}, callArg{"port_num", port})
	p, err := d.drv.PKeys(port)
	err = wrap("query_pkey", err)
	end(len(p), err)
	return p, err
}

// Clock returns the device's time, in the nanoseconds of [WC.Timestamp].
func (d *Device) Clock() uint64 { return d.drv.Clock() }

// Metrics returns the metrics of the device since it was opened, such as packets sent,
// retransmissions, and received packets that were dropped, by reason. The order is always the same.
//
// It waits for nothing that the device does: the values are some milliseconds old at most, while the
// device has a processor. ErrNotSupported: the device measures nothing.
func (d *Device) Metrics() ([]metric.Metric, error) {
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
func (d *Device) Event(ctx context.Context) (Event, error) {
	if d.calls == nil {
		return d.events.get(ctx)
	}
	end := d.calls.Begin("ibv_get_async_event", callArg{"context", d})
	e, err := d.events.get(ctx)
	end(nil, err, callArg{"event", e})
	return e, err
}

// AllocPD allocates a protection domain.
func (d *Device) AllocPD() (pd *PD, err error) {
	if d.calls != nil {
		end := d.calls.Begin("ibv_alloc_pd", callArg{"context", d})
		defer func() { end(pd, err) }()
	}
	pd = &PD{dev: d}
	if err := pd.use("alloc_pd", &d.object); err != nil {
		return nil, err
	}
	if pd.drv, err = d.drv.AllocPD(); err != nil {
		pd.unuse()
		return nil, wrap("alloc_pd", err)
	}
	return pd, nil
}

// registerOnClose has f called when the device is about to be closed: driver.OnClose.
func (d *Device) registerOnClose(f func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return opErr("on_close", ErrClosed, "")
	}
	d.onClose = append(d.onClose, f)
	return nil
}

// Close frees the device and everything that was created on it. Peers of queue pairs that package cm connected get a
// disconnect. All others get no message, and run into their retry limits. Closing twice is harmless: a second call
// returns when the device is gone.
func (d *Device) Close() error { return d.logClose("ibv_close_device", "context", d, d.close) }

func (d *Device) close() error {
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
	if len(leave) > 0 {
		d.drv.Drain()
	}
	for _, f := range leave {
		f()
	}
	d.events.close()
	close(d.done)
	d.unclosed.Stop()    // it keeps the driver, and all that the driver knows
	return d.drv.Close() // waits, so without the lock: other goroutines release the device's objects
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
