// SPDX-License-Identifier: Apache-2.0

package rdmatest

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"
)

// watchdog notices, in real time, that a world's time stands still.
type watchdog struct {
	seed  uint64
	world atomic.Pointer[World]
	stop  chan struct{}
}

// look is how often the watchdog looks.
var look = time.Second // a test of the watchdog has less

const (
	// stillLooks is how often all goroutines must be found waiting, one of them so that time cannot pass.
	stillLooks = 3
	// busyLooks is how often one must be found running while nothing happens on the network.
	busyLooks = 120
)

func watch(seed uint64) *watchdog {
	d := &watchdog{seed: seed, stop: make(chan struct{})}
	go d.run()
	return d
}

func (d *watchdog) run() {
	tick := time.NewTicker(look)
	defer tick.Stop()
	still, busy, last := 0, 0, uint64(0)
	for {
		select {
		case <-d.stop:
			return
		case <-tick.C:
		}
		w := d.world.Load()
		if w == nil {
			continue
		}
		if moved := w.net.Moved(); moved != last {
			still, busy, last = 0, 0, moved
			continue
		}
		var stuck, others, running strings.Builder
		for _, g := range goroutines(w.bubble) {
			switch _, users := g.where(); {
			case g.runs:
				running.WriteString(g.String())
			case !g.durable:
				stuck.WriteString(g.String())
			case users:
				others.WriteString(g.String())
			}
		}
		if busy++; running.Len() == 0 || busy < busyLooks {
			if running.Len() > 0 || stuck.Len() == 0 {
				still = 0
				continue
			}
			if still++; still < stillLooks {
				continue
			}
		}
		d.end(stuck.String(), others.String(), running.String())
	}
}

// end ends the process: nothing else ends a world whose time stands still.
func (d *watchdog) end(stuck, others, running string) {
	text := fmt.Sprintf("rdmatest: seed %d: time stands still.\n", d.seed)
	if running == "" {
		text += "Time passes while all goroutines wait for channels, timers, conditions or devices. These wait for something else:\n" +
			stuck + "If it is a mutex, unlock it before you wait for time or for the network. One of these may hold it:\n" + others
	} else {
		text += "These goroutines run on and on, and never wait:\n" + running
	}
	fmt.Fprint(os.Stderr, text)
	debug.SetTraceback("none")
	panic("rdmatest: time stands still, see above")
}
