// SPDX-License-Identifier: Apache-2.0

package softdev

import "sync"

// news is what is to be told without the device's lock, in order, by one goroutine.
type news struct {
	mu    sync.Mutex
	queue []func()
	ready chan struct{} // of capacity 1: look again
	ended chan struct{}
	done  chan struct{}
}

func (n *news) start() {
	n.ready, n.ended, n.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go n.run()
}

// tell has f called soon.
func (n *news) tell(f func()) {
	n.mu.Lock()
	n.queue = append(n.queue, f)
	n.mu.Unlock()
	select {
	case n.ready <- struct{}{}:
	default:
	}
}

func (n *news) run() {
	defer close(n.done)
	for {
		n.mu.Lock()
		queue := n.queue
		n.queue = nil
		n.mu.Unlock()
		for _, f := range queue {
			f()
		}
		if len(queue) > 0 {
			continue
		}
		select {
		case <-n.ready:
		case <-n.ended:
			return
		}
	}
}

// StreamsDone is closed with the device.
func (d *StreamDevice) StreamsDone() <-chan struct{} { return d.news.ended }

// stop ends the goroutine; whoever is being told something may still be at it.
func (n *news) stop() { close(n.ended) }
