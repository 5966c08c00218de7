// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/internal/hook"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// Device is the interface that a kind of device implements; programs use [verbs.Device].
type Device = interface {
	QueryDevice() verbs.DeviceAttr
	QueryPort(port int) (verbs.PortAttr, error)
	GIDs(port int) ([]verbs.GIDEntry, error)
	PKeys(port int) ([]verbs.PKey, error)
	Clock() uint64 // now, in the nanoseconds of WC.Timestamp

	// Metrics, QPStats and Latencies may be called at any time, also by a callback that the driver has called,
	// and do not wait for other calls. QPStats returns all queue pairs.
	Metrics() ([]metric.Metric, error)
	QPStats() ([]verbs.QPStats, error)
	Latencies() ([]verbs.Latency, error)
	// SetFailureSink sets the function that failures of queue pairs are given to. It does not block.
	SetFailureSink(func(*verbs.Failure)) error
	// SetEventSink sets the function that receives events of the device as a whole.
	SetEventSink(func(verbs.EventType, int))

	AllocPD() (PD, error)
	CreateCQ(cqe int, ev CQEvents) (CQ, error)
	OpenXRCD() (XRCD, error)

	// Drain is called while the device still works, before functions of [OnClose], which may send, and Close. A
	// device that sends in the background sends all that it can at once.
	Drain()
	Close() error
}

// XRCD is an XRC domain of a driver.
type XRCD = interface {
	CreateTargetQP(init *verbs.QPInit, events func(verbs.EventType)) (QP, error)
	Close() error
}

// Unsupported answers every call of a [Device] that a driver may lack with ErrNotSupported. Its clock is the
// system's, in nanoseconds, it raises no events, and has nothing to drain.
type Unsupported struct{}

func (Unsupported) PKeys(int) ([]verbs.PKey, error)           { return nil, verbs.ErrNotSupported }
func (Unsupported) OpenXRCD() (XRCD, error)                   { return nil, verbs.ErrNotSupported }
func (Unsupported) Clock() uint64                             { return uint64(time.Now().UnixNano()) }
func (Unsupported) Metrics() ([]metric.Metric, error)         { return nil, verbs.ErrNotSupported }
func (Unsupported) QPStats() ([]verbs.QPStats, error)         { return nil, verbs.ErrNotSupported }
func (Unsupported) Latencies() ([]verbs.Latency, error)       { return nil, verbs.ErrNotSupported }
func (Unsupported) SetFailureSink(func(*verbs.Failure)) error { return verbs.ErrNotSupported }
func (Unsupported) SetEventSink(func(verbs.EventType, int))   {}
func (Unsupported) Drain()                                    {}

// The types of package verbs' functions say that its interfaces are the interfaces of this package.
var (
	newDevice = hook.NewDevice.(func(Device) *verbs.Device)
	deviceOf  = hook.DeviceOf.(func(*verbs.Device) Device)
	xrcdOf    = hook.XRCDOf.(func(*verbs.XRCD) XRCD)
)

// NewDevice makes a [verbs.Device] of a driver.
func NewDevice(d Device) *verbs.Device { return newDevice(d) }

// DeviceOf returns the driver's part of a device.
func DeviceOf(d *verbs.Device) Device { return deviceOf(d) }

// XRCDOf returns the driver's part of an XRC domain.
func XRCDOf(x *verbs.XRCD) XRCD { return xrcdOf(x) }
