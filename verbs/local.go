// SPDX-License-Identifier: Apache-2.0

package verbs

import "sync"

// deviceLocals are the values that other packages keep with a device.
type deviceLocals struct {
	mu sync.Mutex
	of map[any]any
}

// local returns the value of key on this device: driver.Local.
func (d *Device) local(key any, make func() any) any {
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
