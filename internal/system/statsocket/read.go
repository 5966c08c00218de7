// SPDX-License-Identifier: Apache-2.0

package statsocket

import (
	"errors"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/observe"
)

// Process is a process whose state can be read.
type Process struct {
	PID     int // as this process sees it
	UID     int
	Command string // its name; empty: not known
	// Instance tells it from another process that is given the same id later, and from itself before it
	// closed its last device.
	Instance uint64
	State    *observe.Process
	At       time.Time // when the State had been read
	Err      error     // why there is no State
}

// readTime is how long a process may be silent that is read. It may have to rest before, from another reader. mostTime
// bounds the reading of one process.
const (
	readTime = 3 * time.Second
	mostTime = 30 * time.Second
)

// ErrUnsupported says that there are no such sockets on this system.
var ErrUnsupported = errors.New(
	"processes are seen on Linux only: elsewhere a program can ask verbs.Device.Metrics and QPStats")
