// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"time"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/internal/core/calllog"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// begin notes a call of an id in the log of its device's calls, if there is one. What it returns is to be called with
// the call's error, once no lock is held any more.
func (id *ID) begin(call string, args ...driver.CallArg) (end func(*error)) {
	l := driver.CallsOf(id.dev)
	if l == nil {
		return unlogged
	}
	done := l.Begin(call, append([]driver.CallArg{{Name: "id", Value: id.object()}}, args...)...)
	return func(err *error) { done(nil, *err) }
}

func unlogged(*error) {}

// beginNew does so for the call that creates an id.
func beginNew(dev *verbs.Device, ps PortSpace) (end func(*ID, error)) {
	l := driver.CallsOf(dev)
	if l == nil {
		return func(*ID, error) {}
	}
	done := l.Begin("rdma_create_id", arg("ps", calllog.Named("port_space", uint64(ps))))
	return func(id *ID, err error) { done(id.object(), err) }
}

// logEvent notes an event that the program has got.
func logEvent(e *Event) {
	if e.ID == nil || e.ID.dev == nil {
		return
	}
	l := driver.CallsOf(e.ID.dev)
	if l == nil {
		return
	}
	f := []driver.CallArg{arg("type", eventName(e.Type)), arg("id", e.ID.object())}
	if e.Listener != nil {
		f = append(f, arg("listen_id", e.Listener.object()))
	}
	if e.Err != nil {
		f = append(f, arg("error", e.Err.Error()))
	}
	var made any
	if e.Type == ConnectRequest {
		made = e.ID.object()
	}
	l.Begin("rdma_get_cm_event")(made, nil, arg("event", f))
}

func (id *ID) object() calllog.Object {
	return calllog.Object{Kind: "id", Key: uintptr(unsafe.Pointer(id))}
}

func arg(name string, value any) driver.CallArg { return driver.CallArg{Name: name, Value: value} }

func timeoutArg(d time.Duration) driver.CallArg { return arg("timeout_ms", d.Milliseconds()) }

// eventName returns the name of an event in C.
func eventName(t EventType) calllog.Symbol { return calllog.Named("cm_event_type", uint64(t)) }

// connArg is the argument with a connection's parameters.
func connArg(p *ConnParam) driver.CallArg {
	if p == nil {
		return arg("conn_param", nil)
	}
	return arg("conn_param", []driver.CallArg{{Name: "private_data_len", Value: len(p.PrivateData)},
		{Name: "responder_resources", Value: p.ResponderResources},
		{Name: "initiator_depth", Value: p.InitiatorDepth}, {Name: "retry_count", Value: p.RetryCount},
		{Name: "rnr_retry_count", Value: p.RNRRetryCount}, {Name: "qp_num", Value: p.QPNum}})
}
