// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"runtime"
	"slices"
	"sync"
	"weak"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// ConnLister lists the ids of a device's connection manager in pages, as driver.Observer lists its
// objects. next is [Busy] if the manager is busy for too long.
type ConnLister func(page []driver.ConnInfo, at int) (n, next int)

// Busy is the position of a listing that cannot go on.
const Busy = -1

// entry is a device of this process.
type entry struct {
	dev     weak.Pointer[verbs.Device]
	conns   ConnLister // nil: it has no connection manager
	changed func(devices int)
}

var (
	entriesLock sync.Mutex
	entries     []*entry // in the order of opening
)

// Register lists a device until it is closed, or its program drops it. changed is called now and then, with the
// number of devices that are listed, one call after the other.
func Register(dev *verbs.Device, changed func(devices int)) {
	e := &entry{dev: weak.Make(dev), changed: changed}
	entriesLock.Lock()
	entries = append(entries, e)
	changed(len(entries))
	entriesLock.Unlock()
	if driver.OnClose(dev, e.unregister) != nil {
		e.unregister()
	}
	runtime.AddCleanup(dev, func(e *entry) { e.unregister() }, e)
}

func (e *entry) unregister() {
	entriesLock.Lock()
	defer entriesLock.Unlock()
	if i := slices.Index(entries, e); i >= 0 {
		entries = slices.Delete(entries, i, i+1)
		e.conns = nil // it knows the device, and the cleanup keeps e until that is garbage
		e.changed(len(entries))
	}
}

// SetConnLister sets the lister of a device's connections. It does nothing if the device is not registered.
func SetConnLister(dev *verbs.Device, list ConnLister) {
	entriesLock.Lock()
	defer entriesLock.Unlock()
	for _, e := range entries {
		if e.dev == weak.Make(dev) {
			e.conns = list
		}
	}
}

// liveDevice is a registered device, kept alive while it is read.
type liveDevice struct {
	dev   *verbs.Device
	conns ConnLister
}

// devices returns the registered devices.
func devices() (all []liveDevice) {
	entriesLock.Lock()
	defer entriesLock.Unlock()
	for _, e := range entries {
		if dev := e.dev.Value(); dev != nil {
			all = append(all, liveDevice{dev, e.conns})
		}
	}
	return all
}
