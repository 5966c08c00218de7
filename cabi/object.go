// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

import (
	"sync"
	"unsafe"
)

// object is what events need of a queue that C knows.
type object struct {
	context *deviceContext
	c       unsafe.Pointer // C's struct
}

// objectMap finds it by package verbs' object.
type objectMap struct {
	mu sync.Mutex
	m  map[any]object
}

var objects = objectMap{m: map[any]object{}}

func (o *objectMap) put(key any, context *deviceContext, c unsafe.Pointer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.m[key] = object{context, c}
}

func (o *objectMap) get(key any) (object, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	v, ok := o.m[key]
	return v, ok
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
