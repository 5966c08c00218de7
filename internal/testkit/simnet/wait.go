// SPDX-License-Identifier: Apache-2.0

package simnet

import "time"

// At a waiter a device's goroutine waits, and it and polling programs pause. The network's lock covers it.
type waiter struct {
	net      *Net
	host     *Host
	pause    instant
	timer    *time.Timer
	news     chan struct{} // look again
	woken    bool
	deadline instant // 0: none
	polled   instant // when the last poll was empty
	empty    int     // empty polls at that time
}

func newWaiter(h *Host) waiter {
	w := waiter{net: h.net, host: h, pause: instant(h.Pause), timer: time.NewTimer(time.Hour),
		news: make(chan struct{}, 1)}
	w.timer.Stop()
	return w
}

func (w *waiter) look() { poke(w.news) }

// wait blocks until ready, with the lock held, says so, or the deadline passes, or Wake is called.
func (w *waiter) wait(ready func() bool) error {
	n := w.net
	n.mu.Lock()
	defer n.mu.Unlock()
	for !w.woken && !ready() {
		var end <-chan time.Time
		at := w.deadline
		if at != 0 {
			if at <= n.now() {
				break
			}
			at = n.take(at)
			w.timer.Reset(time.Duration(at - n.now()))
			end = w.timer.C
		}
		n.mu.Unlock()
		select {
		case <-w.news:
		case <-end:
		}
		w.timer.Stop()
		n.mu.Lock()
		if at != 0 {
			delete(n.taken, at)
		}
	}
	w.woken = false
	return nil
}

// SetDeadline sets when waiting ends at the latest.
func (w *waiter) SetDeadline(t time.Time) {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	old := w.deadline
	if w.deadline = 0; !t.IsZero() {
		w.deadline = max(1, instant(t.Sub(w.net.start)))
	}
	if w.deadline != 0 && (old == 0 || w.deadline < old) {
		w.look()
	}
}

// Wake ends waiting.
func (w *waiter) Wake() {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	w.woken = true
	w.look()
}

// Pause waits for a moment.
func (w *waiter) Pause() { w.net.Sleep(time.Duration(w.pause)) }

// Sleep is [time.Sleep] for programs on the network: nothing else goes on at the instant at which it returns.
func (n *Net) Sleep(d time.Duration) {
	n.mu.Lock()
	at := n.take(n.now() + instant(d))
	left := at - n.now()
	n.mu.Unlock()
	time.Sleep(time.Duration(left))
	n.mu.Lock()
	delete(n.taken, at)
	n.mu.Unlock()
}

// emptyPolls is how many empty polls at one time make a pause: a single look, which may come with
// a lock of the program held, is none that waits.
const emptyPolls = 16

// PollPause pauses for a program whose polls are empty.
func (w *waiter) PollPause() {
	w.net.mu.Lock()
	now := w.net.now()
	if now != w.polled {
		w.polled, w.empty = now, 0
	}
	w.empty++
	pause := w.empty >= emptyPolls
	if pause {
		w.empty = 0
	}
	w.net.mu.Unlock()
	if pause {
		w.Pause()
	}
}
