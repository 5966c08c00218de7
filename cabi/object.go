// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

import (
	"sync"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// object is what events need of a queue that C knows.
type object struct {
	context  *deviceContext
	c        unsafe.Pointer // C's struct
	reported *uint32        // in it: events that the program was given
}

// objectMap finds it by package verbs' object.
type objectMap struct {
	mu sync.Mutex
	m  map[any]object
}

var objects = objectMap{m: map[any]object{}}

func (o *objectMap) put(key any, v object) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.m[key] = v
}

// push gives an event of an object to its context.
func (o *objectMap) push(key any, typ verbs.EventType) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if v, ok := o.m[key]; ok {
		v.context.events.push(asyncEvent{typ: typ, object: v.c, reported: v.reported})
	}
}

// drop forgets an object that was destroyed, and its events.
func (o *objectMap) drop(key any) {
	o.mu.Lock()
	v, ok := o.m[key]
	delete(o.m, key)
	o.mu.Unlock()
	if ok {
		v.context.events.remove(func(e asyncEvent) bool { return e.object == v.c })
	}
}
