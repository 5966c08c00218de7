// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"sync"
)

// object is the part of every verbs object that tracks its users: the objects that were created on
// it and are not closed yet.
type object struct {
	mu     sync.Mutex
	users  int
	closed bool
	deps   []*object
}

// use makes o depend on deps: none of them can be closed before o.
func (o *object) use(op string, deps ...*object) error {
	for i, d := range deps {
		d.mu.Lock()
		if d.closed {
			d.mu.Unlock()
			release(deps[:i])
			return opErr(op, ErrClosed, "")
		}
		d.users++
		d.mu.Unlock()
	}
	o.deps = append(o.deps, deps...)
	return nil
}

// useBy makes an object of another package depend on the device. It returns how to close that object.
func (d *Device) useBy(op string) (end func(op string, destroy func() error) error, err error) {
	o := new(object)
	if err := o.use(op, &d.object); err != nil {
		return nil, err
	}
	return o.close, nil
}

// unuse gives up the dependencies of an object that could not be created.
func (o *object) unuse() {
	release(o.deps)
	o.deps = nil
}

func release(deps []*object) {
	for _, d := range deps {
		d.mu.Lock()
		d.users--
		d.mu.Unlock()
	}
}

// close runs destroy unless the object has users; a second call does nothing.
func (o *object) close(op string, destroy func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	if o.users > 0 {
		return opErr(op, ErrBusy, fmt.Sprintf("%d objects still depend on it: close them first", o.users))
	}
	if err := destroy(); err != nil {
		return err
	}
	o.closed = true
	release(o.deps)
	o.deps = nil
	return nil
}
