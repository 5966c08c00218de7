// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// keyPortion is the bits of a window's key that a binding changes (IBTA 10.6.7.2).
const keyPortion = 0xff

// window is a memory window.
type window struct {
	mw    *verbs.MW
	bound bool
}

// windowOf returns the window that a key is or was of; nil: none that exists.
func (d *Device) windowOf(key verbs.Key) *window { return d.known.windows[key&^keyPortion] }

// checkBind checks that a window and its region are of the queue pair's protection domain (IBTA 10.6.7.2).
func (d *Device) checkBind(q *queuePair, wr *verbs.SendWR, report func(Rule, string)) {
	bind := wr.Bind
	if wr.Op != verbs.OpBindMW || bind == nil {
		return
	}
	named := []any{bind.MW}
	if bind.MR != nil && bind.Length > 0 {
		named = append(named, bind.MR)
	}
	for _, v := range named {
		if o := d.known.all[v]; o != nil && o.pd != q.pd {
			report(ForeignPD, fmt.Sprintf("%s is of %s, the queue pair of %s.", o.name(), d.nameOf(o.pd),
				d.nameOf(q.pd)))
		}
	}
}

// rebind follows the keys that a work request binds or invalidates.
func (d *Device) rebind(wr *verbs.SendWR, place Place) {
	switch wr.Op {
	case verbs.OpBindMW:
		d.bind(wr.Bind, place)
	case verbs.OpLocalInv:
		d.unbind(wr.InvKey, place, "It was invalidated")
	}
}

// bind follows the key of a window that is about to be bound. The one before ends, if it is of type 1.
func (d *Device) bind(info *verbs.MWBindInfo, place Place) {
	if info == nil || info.MW == nil {
		return
	}
	key := info.MW.RKey()
	w := d.windowOf(key)
	if w == nil || w.mw != info.MW {
		return
	}
	next := info.RKey
	if w.mw.Type() == verbs.MWType1 {
		d.unbind(key, place, "It was bound anew")
		next = key + 1
	}
	w.bound = info.Length > 0
	delete(d.dead.all, key&^keyPortion|next&keyPortion)
}

// unbind notes that the key of a window ends.
func (d *Device) unbind(key verbs.Key, place Place, how string) {
	w := d.windowOf(key)
	if w == nil || !w.bound {
		return
	}
	w.bound = false
	if o := d.known.all[w.mw]; o != nil {
		place.What = how
		d.dead.add(key, o, place)
	}
}
