// SPDX-License-Identifier: Apache-2.0

package softdev

import "sync"

// news delivers callbacks without the device's lock, in order, in one goroutine.
type news struct {
	mu    sync.Mutex
	queue []func()
	ready chan struct{} // of capacity 1: check again
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

// stop ends the goroutine; a callback may still be running.
func (n *news) stop() { close(n.ended) }
