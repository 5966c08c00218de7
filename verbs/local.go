// SPDX-License-Identifier: Apache-2.0

package verbs

import "sync"

// deviceLocals are the values that other packages keep with a device.
type deviceLocals struct {
	mu sync.Mutex
	of map[any]any
}

// Local returns the value of key on this device; the first call creates it with make. It is for
// packages that have one object for each device, as package cm has its manager. The device keeps
// the value alive, and not the other way around: a goroutine that reaches the value must not reach
// the device, or a device that a program drops is never freed. Like a context's key, key is of a
// type of the caller's own.
func (d *Device) Local(key any, make func() any) any {
	d.locals.mu.Lock()
	defer d.locals.mu.Unlock()
	if v, ok := d.locals.of[key]; ok {
		return v
	}
	if d.locals.of == nil {
		d.locals.of = map[any]any{}
	}
	v := make()
	d.locals.of[key] = v
	return v
}
