// SPDX-License-Identifier: Apache-2.0

package statsocket

import (
	"net"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/system/forkmark"
)

// A reporter without a collector tries again after reportPause, then after twice that, up to reportPauseMost.
const (
	reportPause     = 100 * time.Millisecond
	reportPauseMost = 10 * time.Second
)

// reporter hands the state of this process to a collector: it connects, and sends a snapshot over each connection when
// the collector asks by a byte.
type reporter struct {
	path   string
	closed chan struct{}
	lock   sync.Mutex
	conn   *net.UnixConn // on which the collector may ask; nil: none
}

func newReporter(path string) *reporter {
	r := &reporter{path: path, closed: make(chan struct{})}
	go r.run()
	return r
}

// close ends the reports.
func (r *reporter) close() {
	r.lock.Lock()
	defer r.lock.Unlock()
	close(r.closed)
	if r.conn != nil {
		r.conn.Close()
	}
}

func (r *reporter) run() {
	var w observe.Writer
	var done budget
	var rest time.Duration
	pause := reportPause
	for {
		if c := r.dial(); c != nil {
			time.Sleep(rest) // already connected, so that the collector knows of the process
			rest = 0
			var ask [1]byte
			n, _ := c.Read(ask[:])
			if n == 1 {
				rest = done.rest(time.Now(), answer(&w, c))
			}
			c.Close()
			if n == 1 {
				pause = reportPause
				continue
			}
		}
		select { // there is no collector
		case <-r.closed:
			return
		case <-time.After(pause):
			pause = min(2*pause, reportPauseMost)
		}
	}
}

// dial connects to the collector; nil: there is none, or the reports end.
func (r *reporter) dial() *net.UnixConn {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: r.path, Net: "unix"})
	if err != nil {
		return nil
	}
	forkmark.SetConn(c)
	r.lock.Lock()
	defer r.lock.Unlock()
	select {
	case <-r.closed:
		c.Close()
		return nil
	default:
	}
	r.conn = c
	return c
}
