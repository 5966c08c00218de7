// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

import (
	"io"
	"slices"
	"sync"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// object says whose an object is, and, of a queue, what events need.
type object struct {
	context  *deviceContext
	c        unsafe.Pointer // C's struct; nil: no queue
	reported *uint32        // in it: events that the program was given
}

// objectMap finds it by package verbs' object.
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

// push gives an event of an object to its context.
func (o *objectMap) push(key io.Closer, typ verbs.EventType) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if v, ok := o.m[key]; ok {
		v.context.events.push(asyncEvent{typ: typ, object: v.c, reported: v.reported})
	}
}

// drop forgets an object that was destroyed, and its events.
func (o *objectMap) drop(key io.Closer) {
	o.mu.Lock()
	v, ok := o.m[key]
	delete(o.m, key)
	o.mu.Unlock()
	if ok && v.c != nil {
		v.context.events.remove(func(e asyncEvent) bool { return e.object == v.c })
	}
}

// closeLeft closes what the program has left of a context that it closes, and returns how
// much that was. The handles go on: C may destroy the objects later, which does nothing more.
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
	for before := n + 1; len(left) < before; { // what others depend on comes in a later round
		before = len(left)
		left = slices.DeleteFunc(left, func(key io.Closer) bool { return key.Close() == nil })
	}
	return n
}
