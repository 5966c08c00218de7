// SPDX-License-Identifier: Apache-2.0

package statsocket

import (
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/environ"
	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/system/forkmark"
	"github.com/ramjet-rdma/ramjet/internal/system/peercred"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	// writeTimeout bounds the time that a snapshot waits for its reader.
	writeTimeout = time.Second
	// restFactor is how much more time passes than snapshots take, in the long run, and restMost for how long
	// the goroutine rests at most.
	restFactor = 50
	restMost   = time.Second
	// burst is how much work is done without a rest, if there was little before: some snapshots of 10,000
	// queue pairs.
	burst = 20 * time.Millisecond
	// maxQueued is how many readers wait in this process; more wait in the listener's backlog.
	maxQueued = 16
	// acceptPause is the time between attempts to accept a connection while the system refuses.
	acceptPause = 5 * time.Millisecond
)

// server serves this process's state, packets the packets of its queue pairs, faults takes faults, and reports hands
// the state to a collector; nil: no device is open, or it is not to be read, or there is no collector.
var (
	serverLock sync.Mutex
	server     *net.UnixListener
	packets    *packetServer
	faults     *net.UnixListener
	reports    *reporter
)

// Publish makes a device that was just opened visible to other processes, and returns it.
func Publish(dev *verbs.Device) *verbs.Device {
	if os.Getenv(variable) != "off" {
		observe.Register(dev, follow)
	}
	return dev
}

// follow serves as long as there are devices.
func follow(devices int) {
	serverLock.Lock()
	defer serverLock.Unlock()
	followReports(devices)
	switch {
	case devices > 0 && server == nil:
		var b [8]byte
		crand.Read(b[:])
		n := name{os.Geteuid(), os.Getpid(), binary.NativeEndian.Uint64(b[:])}
		l, err := listen(n.String())
		if err != nil {
			return // it cannot be seen, but works
		}
		server = l
		readers := make(chan *net.UnixConn, maxQueued)
		go serve(l, readers)
		go answerAll(readers)
		if l, err := listen(n.packets()); err == nil { // else its packets cannot be seen
			packets = newPacketServer(l)
			go packets.serve()
		}
		if l, err := listen(n.faults()); err == nil { // else it gets none
			faults = l
			go serveFaults(l)
		}
	case devices == 0 && server != nil:
		server.Close()
		server = nil
		if packets != nil {
			packets.close()
			packets = nil
		}
		if faults != nil {
			faults.Close()
			faults = nil
		}
	}
}

// followReports hands reports to the collector that the environment names, as long as there are devices.
func followReports(devices int) {
	path := environ.Get(CollectorVariable)
	switch {
	case devices > 0 && reports == nil && path != "":
		reports = newReporter(path)
	case devices == 0 && reports != nil:
		reports.close()
		reports = nil
	}
}

func listen(at string) (*net.UnixListener, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
	if err == nil {
		forkmark.SetConn(l)
	}
	return l, err
}

// serve accepts readers until the listener is closed. Another goroutine answers them.
func serve(l *net.UnixListener, readers chan<- *net.UnixConn) {
	defer close(readers)
	for {
		c, err := accept(l)
		if err != nil {
			return
		}
		readers <- c
	}
}

// accept returns the next connection of a reader that may read this process, or the error that the listener is closed.
// Connections of other users are closed without a rest. All users of the host can connect to an abstract name, and a
// reader stands in line behind them: a rest for each would hide the process.
func accept(l *net.UnixListener) (*net.UnixConn, error) {
	for {
		c, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return nil, err
		}
		if err != nil { // no descriptor is free, perhaps
			time.Sleep(acceptPause)
			continue
		}
		if cred, err := peercred.Of(c); err == nil && allowed(int(cred.Uid), os.Geteuid()) {
			forkmark.SetConn(c)
			return c, nil
		}
		c.Close()
	}
}

// answerAll answers readers, one after the other, with rests between them.
func answerAll(readers <-chan *net.UnixConn) {
	var w *observe.Writer // which is of the first reader on
	var done budget
	for c := range readers {
		if w == nil {
			w = &observe.Writer{}
		}
		rest := done.rest(time.Now(), answer(w, c))
		c.Close()
		time.Sleep(rest)
	}
}

// budget bounds the share of a processor that snapshots take.
type budget struct {
	work time.Duration // less the time since
	at   time.Time
}

// rest returns for how long to rest at the time now, after so much work.
func (b *budget) rest(now time.Time, work time.Duration) time.Duration {
	b.work = max(b.work-now.Sub(b.at)/restFactor, 0) + work
	b.at = now
	over := min(max(b.work-burst, 0), restMost/restFactor)
	b.work = min(b.work, burst+over)
	return over * restFactor
}

// answer sends a snapshot, and returns how much work it was.
func answer(w *observe.Writer, c *net.UnixConn) time.Duration {
	c.SetDeadline(time.Now().Add(writeTimeout))
	t := timed{to: c}
	start := time.Now()
	_ = w.Snapshot(&t) // the reader sees that it is cut off
	return time.Since(start) - t.waited
}

// timed measures how long writes take, which is the reader's time.
type timed struct {
	to     *net.UnixConn
	waited time.Duration
}

func (t *timed) Write(b []byte) (int, error) {
	start := time.Now()
	n, err := t.to.Write(b)
	t.waited += time.Since(start)
	return n, err
}
