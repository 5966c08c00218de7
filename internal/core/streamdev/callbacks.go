// SPDX-License-Identifier: Apache-2.0

package streamdev

import "github.com/ramjet-rdma/ramjet/internal/base/lockorder"

// callbackQueue delivers callbacks without the device's lock, in order, in one goroutine.
type callbackQueue struct {
	mu    lockorder.Mutex[lockorder.Leaf]
	queue []func()
	ready chan struct{} // of capacity 1: check again
	ended chan struct{}
	done  chan struct{}
}

func (q *callbackQueue) start() {
	q.ready, q.ended, q.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go q.run()
}

// add has f called soon.
func (q *callbackQueue) add(f func()) {
	q.mu.Lock()
	q.queue = append(q.queue, f)
	q.mu.Unlock()
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

func (q *callbackQueue) run() {
	defer close(q.done)
	for {
		q.mu.Lock()
		queue := q.queue
		q.queue = nil
		q.mu.Unlock()
		for _, f := range queue {
			f()
		}
		if len(queue) > 0 {
			continue
		}
		select {
		case <-q.ready:
		case <-q.ended:
			return
		}
	}
}

// StreamsDone is closed with the device.
func (d *Device) StreamsDone() <-chan struct{} { return d.callbacks.ended }

// stop ends the goroutine; a callback may still be running.
func (q *callbackQueue) stop() { close(q.ended) }
