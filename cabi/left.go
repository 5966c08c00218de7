// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include "cmobjects.h"
import "C"

import (
	"context"
	"fmt"
	"slices"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// owed are the asynchronous events that a program must not miss: errors, and events that it has requested.
var owed = []verbs.EventType{
	verbs.EventCQError, verbs.EventSRQError, verbs.EventDeviceFatal,
	verbs.EventQPFatal, verbs.EventQPRequestError, verbs.EventQPAccessError,
	verbs.EventQPLastWQEReached, verbs.EventSRQLimitReached,
}

// checkExit reports the objects that are left at the end of the program, and returns its exit status instead of 0.
func checkExit() int {
	if checking.checker == nil {
		return 0
	}
	contexts.each(func(c *deviceContext) {
		for _, e := range c.left() {
			if slices.Contains(owed, e.typ) {
				checking.handles.Unread(uintptr(e.object), c.dev.name, fmt.Sprintf("the event %q", e.typ.String()))
			}
		}
	})
	channels.each(func(ch *channel) {
		for _, c := range ch.events.all() {
			checking.handles.Unread(uintptr(c), "", "a completion event")
		}
	})
	cmChannels.each(func(ch *cmChannel) {
		for _, e := range ch.left() {
			if id := e.owner(); id != nil && awaited(e.Type) && (*C.struct_rj_cm_id)(id.c).sync == 0 {
				checking.handles.Unread(uintptr(id.c), "", fmt.Sprintf("the event %q", e.Type.String()))
			}
		}
	})
	return checking.checker.Exit()
}

// left ends the forwarding of a device's events, and returns the untaken ones.
func (c *deviceContext) left() []asyncEvent {
	c.dev.stop()
	<-c.dev.stopped
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	c.dev.watch(ended) // the events that it does not have yet
	return c.events.all()
}

// left ends the forwarding of events, and returns the untaken ones.
func (ch *cmChannel) left() []cmEvent {
	ch.stop()
	<-ch.stopped
	all := ch.events.all()
	for e, ok := ch.TryGet(); ok; e, ok = ch.TryGet() {
		all = append(all, cmEvent{Event: e})
	}
	return all
}

// owner returns the id that an event is about; nil: it was destroyed.
func (e *cmEvent) owner() *cmID {
	if e.about != nil {
		return e.about
	}
	id, _ := cmOwners.Load(e.ID)
	owner, _ := id.(*cmID)
	return owner
}

// awaited reports whether a program has to take an event: peers may ask at any time, data may tell a server that its
// connection is established, and programs seldom wait for the end of the time wait.
func awaited(t cm.EventType) bool {
	return t != cm.ConnectRequest && t != cm.Established && t != cm.TimewaitExit
}
