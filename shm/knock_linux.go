// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// knockEvery is the time between attempts to connect to a listener at which as many peers wait as may. The system
// does not tell when it has let one in.
const knockEvery = 10 * time.Millisecond

// knocking are the links that make attempts, in the order in which they began.
type knocking struct {
	links []*link
	timer *time.Timer // of the next attempts; nil: there have been none
}

// knockLater has a link make another attempt, and others until it is let in or its listener has gone.
func (n *network) knockLater(l *link) {
	l.knocks = true
	if n.knocking.links = append(n.knocking.links, l); len(n.knocking.links) == 1 {
		n.knocking.start(n)
	}
}

func (k *knocking) start(n *network) {
	if k.timer != nil {
		k.timer.Reset(knockEvery)
		return
	}
	k.timer = time.AfterFunc(knockEvery, func() {
		n.asked.Store(true)
		n.Wake()
	})
}

func (k *knocking) stop() {
	if k.timer != nil {
		k.timer.Stop()
	}
}

// knock makes the attempts. One listener without room ends them: the next time it has its turn again.
func (n *network) knock() {
	k := &n.knocking
	for len(k.links) > 0 {
		l := k.links[0]
		if l.knocks {
			sock, err := n.place.Connect(l.to.String())
			if errors.Is(err, unix.EAGAIN) {
				k.links = append(k.links[1:], l) // it may be another listener than that of the next one
				k.start(n)
				return
			}
			l.knocks = false
			if err == nil {
				err = l.open(sock)
			}
			if err != nil {
				l.fail(err)
			}
		}
		k.links = k.links[1:]
	}
}
