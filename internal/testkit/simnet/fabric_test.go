// SPDX-License-Identifier: Apache-2.0

package simnet

import (
	"fmt"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
)

// startFabric makes up a fabric with adapters for so many hosts.
func (w *world) startFabric(seed uint64, hosts int) (err error) {
	r := w.rand
	shape, adapters := "", 0
	switch r.IntN(6) {
	case 0:
		shape, adapters = "star:6", 6
	case 1:
		shape, adapters = "line:3,2", 6
	case 2:
		shape, adapters = "ring:4,2", 8
	case 3:
		shape, adapters = "fat-tree:3,2", 9
	case 4:
		shape, adapters = "xgft:2,3;1,2", 6
	case 5:
		shape, adapters = "fat-tree:2,3", 8
		if hosts == 2 {
			shape, adapters = "pair", 2
		}
	}
	w.tell(", %s", shape)
	for _, i := range r.Perm(adapters)[:hosts] {
		w.adapters = append(w.adapters, fmt.Sprintf("host-%d", i+1))
	}
	w.fabric, err = w.net.NewFabric(shape, seed)
	return err
}

// fabricTrouble makes up what befalls the fabric, and has it happen while the program runs. What passes is
// shorter than anybody's patience.
func (w *world) fabricTrouble() {
	r, f := w.rand, w.fabric
	view := f.View()
	cable := func() (a, b infiniband.End) {
		c := view.Cables[r.IntN(len(view.Cables))]
		return c.A, c.B
	}
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	troubles := r.IntN(5)
	for range troubles {
		at := w.someTime(10*time.Microsecond, time.Second)
		long := w.someTime([]time.Duration{10 * time.Microsecond, time.Millisecond, 50 * time.Millisecond}[r.IntN(3)], 800*time.Millisecond)
		a, b := cable()
		switch r.IntN(4) {
		case 0:
			w.tell(", the cable from %v to %v out after %v for %v", a, b, at, long)
			w.unplugged(a, b, at, long)
		case 1:
			share := r.Float64() * 0.03
			w.tell(", %.3f of packets from %v to %v corrupted after %v for %v", share, a, b, at, long)
			w.passing(at, long, func(on bool) {
				s := 0.0
				if on {
					s = share
				}
				f.SetErrorRate(a, s) // unless the cable is out
			})
		case 2:
			lane := r.IntN(2)
			w.tell(", %v's credits for lane %d held back after %v for %v", a, lane, at, long)
			w.passing(at, long, func(on bool) { must(f.HoldCredits(a, lane, on)) })
		case 3:
			name := w.someSwitch(view)
			if name == "" {
				continue
			}
			w.tell(", %s down after %v for %v", name, at, long)
			w.passing(at, long, func(on bool) { must(f.Power(name, !on)) })
		}
	}
	if w.fatal = r.IntN(4) == 0; !w.fatal {
		w.calmly = troubles == 0
		return
	}
	at := w.someTime(10*time.Microsecond, 100*time.Millisecond)
	h := r.IntN(len(w.adapters))
	w.tell(", host %d's cable out for good after %v", h, at)
	w.endHost(h)
	w.passing(at, 0, func(on bool) {
		if on {
			f.Pull(infiniband.End{Node: w.adapters[h], Port: 1}) // unless it is out
		}
	})
}

// unplugged has a cable taken out for a time.
func (w *world) unplugged(a, b infiniband.End, after, long time.Duration) {
	w.passing(after, long, func(on bool) {
		if on {
			w.fabric.Pull(a) // unless it is out already
		} else {
			w.fabric.Plug(a, b) // unless it is in again
		}
	})
}

// someSwitch returns the name of a switch, or nothing if there is none.
func (w *world) someSwitch(v *infiniband.FabricView) string {
	var names []string
	for i := range v.Nodes {
		if !v.Nodes[i].Adapter() {
			names = append(names, v.Nodes[i].Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return names[w.rand.IntN(len(names))]
}
