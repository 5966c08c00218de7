// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"time"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/internal/core/calllog"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// begin notes a call of an id in the log of its device's calls, if there is one. The caller calls end with the call's
// error, once no lock is held any more.
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

// beginQP does so for the call that creates an id's queue pair.
func (id *ID) beginQP(init verbs.QPInit) (end func(*verbs.QP, error)) {
	l := driver.CallsOf(id.dev)
	if l == nil {
		return func(*verbs.QP, error) {}
	}
	done := l.Begin("rdma_create_qp", arg("id", id.object()), arg("attr", init))
	return func(qp *verbs.QP, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(nil, nil, arg("qp", qp), arg("qp_num", qp.Num()))
	}
}

// logWith has waits for events in the log of a device whose id reports to the channel, unless they are in another one.
func (c *EventChannel) logWith(dev *verbs.Device) {
	if dev == nil || driver.CallsOf(dev) == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = driver.CallsOf(dev)
	}
}

// beginGet notes that the program waits for an event.
func (c *EventChannel) beginGet() (end func(*Event, error)) {
	c.mu.Lock()
	l := c.calls
	c.mu.Unlock()
	if l == nil { // an id may come while it waits
		return func(e *Event, _ error) { logEvent(e) }
	}
	done := l.Begin("rdma_get_cm_event")
	return func(e *Event, err error) {
		switch {
		case err != nil:
			done(nil, err)
		case logOf(e) != l: // each log has names of its own for ids
			done(nil, nil)
			logEvent(e)
		default:
			made, event := described(e)
			done(made, nil, event)
		}
	}
}

// logEvent notes an event that the program has got without waiting.
func logEvent(e *Event) {
	if l := logOf(e); l != nil {
		made, event := described(e)
		l.Begin("rdma_get_cm_event")(made, nil, event)
	}
}

// logOf returns the log of an event's device, or nil.
func logOf(e *Event) driver.CallLog {
	if e == nil || e.ID == nil || e.ID.dev == nil {
		return nil
	}
	return driver.CallsOf(e.ID.dev)
}

// described returns the object that a call has made which has returned an event, nil if none, and the event's fields.
func described(e *Event) (made any, event driver.CallArg) {
	f := []driver.CallArg{arg("type", eventName(e.Type)), arg("id", e.ID.object())}
	if e.Listener != nil {
		f = append(f, arg("listen_id", e.Listener.object()))
	}
	if e.Err != nil {
		f = append(f, arg("error", e.Err.Error()))
	}
	if e.Type == ConnectRequest || e.Type == Established {
		f = append(f, arg("src_addr", e.ID.LocalAddr()), arg("dst_addr", e.ID.PeerAddr()))
	}
	if e.Type == ConnectRequest {
		made = e.ID.object()
	}
	return made, arg("event", f)
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
