// SPDX-License-Identifier: Apache-2.0

package softdev

import "sync"

// callbackQueue delivers callbacks without the device's lock, in order, in one goroutine.
type callbackQueue struct {
	mu    sync.Mutex
	queue []func()
	ready chan struct{} // of capacity 1: check again
	ended chan struct{}
	done  chan struct{}
}

func (n *callbackQueue) start() {
	n.ready, n.ended, n.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go n.run()
}

// add has f called soon.
func (n *callbackQueue) add(f func()) {
	n.mu.Lock()
	n.queue = append(n.queue, f)
	n.mu.Unlock()
	select {
	case n.ready <- struct{}{}:
	default:
	}
}

func (n *callbackQueue) run() {
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
func (d *StreamDevice) StreamsDone() <-chan struct{} { return d.callbacks.ended }

// stop ends the goroutine; a callback may still be running.
func (n *callbackQueue) stop() { close(n.ended) }
