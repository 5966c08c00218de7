// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include "objects.h"
import "C"

import (
	"io"
	"slices"
	"sync"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// object records the context of an object, and the fields for events of a queue.
type object struct {
	context  *deviceContext
	c        unsafe.Pointer // C's struct; nil: no queue
	reported *uint32        // in it: the number of events the program was given
}

// objectMap finds C's objects by package verbs' objects.
type objectMap struct {
	mu sync.Mutex
	m  map[io.Closer]object
}

var objects = objectMap{m: map[io.Closer]object{}}

func (o *objectMap) put(key io.Closer, v object) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.m[key] = v
}

// push queues an event of an object at its context.
func (o *objectMap) push(key io.Closer, typ verbs.EventType) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if v, ok := o.m[key]; ok {
		v.context.events.push(asyncEvent{typ: typ, object: v.c, reported: v.reported})
	}
}

// follow writes the state of a queue pair into its struct. Code that changes the state for the
// program calls it, such as the connection manager.
func (o *objectMap) follow(q *verbs.QP) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if v, ok := o.m[q]; ok { // not yet destroyed and freed
		(*C.struct_rj_qp)(v.c).qp.qp_base.state = uint32(q.State())
	}
}

// drop removes a destroyed object, and its events.
func (o *objectMap) drop(key io.Closer) {
	o.mu.Lock()
	v, ok := o.m[key]
	delete(o.m, key)
	o.mu.Unlock()
	if ok && v.c != nil {
		v.context.events.remove(func(e asyncEvent) bool { return e.object == v.c })
	}
}

// destroy closes the object of a handle and drops it from its table. key returns the object of package verbs behind it.
// With after, it is called once the object is closed.
func destroy[T any](t *table[T], h C.uint64_t, key func(*T) io.Closer, after func(*T)) C.int {
	v := t.get(uint64(h))
	if v == nil {
		return enoent
	}
	k := key(v)
	if err := k.Close(); err != nil {
		return errno(err)
	}
	if after != nil {
		after(v)
	}
	objects.drop(k)
	t.drop(uint64(h))
	return ok
}

// closeLeft closes the objects that the program has left of a context that it closes, and returns
// their number. The handles stay valid: C may destroy the objects later, which does nothing more.
func (o *objectMap) closeLeft(c *deviceContext) int {
	var left []io.Closer
	o.mu.Lock()
	for key, v := range o.m {
		if v.context == c {
			left = append(left, key)
		}
	}
	o.mu.Unlock()
	n := len(left)
	for before := n + 1; len(left) < before; { // objects that others depend on come in a later round
		before = len(left)
		left = slices.DeleteFunc(left, func(key io.Closer) bool { return key.Close() == nil })
	}
	return n
}
