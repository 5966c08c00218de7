// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// retryEvery is the time between attempts to connect to a listener at which as many peers wait as may. The system
// does not tell when it has let one in.
const retryEvery = 10 * time.Millisecond

// connectRetries are the links that make attempts, in the order in which they began.
type connectRetries struct {
	links []*link
	timer *time.Timer // of the next attempts; nil: there have been none
}

// retryLater has a link make another attempt, and others until it is let in or its listener has gone.
func (n *network) retryLater(l *link) {
	l.retries = true
	if n.retries.links = append(n.retries.links, l); len(n.retries.links) == 1 {
		n.retries.start(n)
	}
}

func (r *connectRetries) start(n *network) {
	if r.timer != nil {
		r.timer.Reset(retryEvery)
		return
	}
	r.timer = time.AfterFunc(retryEvery, func() {
		n.asked.Store(true)
		n.Wake()
	})
}

func (r *connectRetries) stop() {
	if r.timer != nil {
		r.timer.Stop()
	}
}

// retryConnects makes the attempts. One listener without room ends them: the next time it has its turn again.
func (n *network) retryConnects() {
	r := &n.retries
	for len(r.links) > 0 {
		l := r.links[0]
		if l.retries {
			sock, err := n.place.Connect(l.to.String())
			if errors.Is(err, unix.EAGAIN) {
				r.links = append(r.links[1:], l) // it may be another listener than that of the next one
				r.start(n)
				return
			}
			l.retries = false
			if err == nil {
				err = l.open(sock)
			}
			if err != nil {
				l.fail(err)
			}
		}
		r.links = r.links[1:]
	}
}
