// SPDX-License-Identifier: Apache-2.0

package streamdev

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// carrier is how the data of a [Device] travel once a stream is set up: as bytes of the stream
// ([byteCarrier]), or in memory that both processes share, for which the stream only carries the
// set-up and shows when the peer ends ([memoryCarrier]). Its methods are called with the lock held, unless they say otherwise.
type carrier interface {
	// bytes reports whether the data are bytes of the streams, which have packets and may suffer faults.
	bytes() bool
	// slotBits is how many bits of a queue pair's number tell devices of one address apart.
	slotBits() int
	// shared returns what all engines have.
	shared() *queue.Device
	// equip gives a queue pair its engine and its endpoint.
	equip(q *streamQP, c queue.Config)
	// patient reports whether the set-up of a stream waits for as long as the peer's process lives, of whose end the
	// network tells.
	patient() bool
	// loop makes the link of a queue pair to itself.
	loop() (Link, error)
	// datagrams returns what makes UD queue pairs; nil: there are none.
	datagrams() datagramMaker
	// scans reports whether a pass reads the streams one by one, rather than ask the network which
	// of them are ready.
	scans() bool
	// arm prepares for a wait: see transport.
	arm() bool
	// workers is that of fabric.
	workers() map[softdev.Worker]uint32
	// publish copies counters for metrics. The view's lock is held, too.
	publish()
	// metrics returns what was published. The view's lock is held, the lane's is not.
	metrics() []metric.Metric
	// close frees what streams have left behind.
	close()
}

// datagramMaker makes UD queue pairs and their address handles. Its methods are called with the lock held.
type datagramMaker interface {
	newQP(domain memory.PD, init *verbs.QPInit) (softdev.QueuePair, error)
	newAH(attr verbs.AHAttr) (driver.AH, error)
}

// engine is the queue pair of the protocol engine behind a carrier.
type engine interface {
	softdev.Protocol
	Attr() *verbs.QPAttr
	// Up reports whether there is a stream, and Waiting whether work requests wait for one.
	Up() bool
	Waiting() bool
	// Paused reports whether a message waits for a receive. Resume continues with it.
	Paused() bool
	Resume()
	// Lost reports the end of the stream.
	Lost(orderly bool)
	Destroy()
}

// endpoint is a queue pair's part of a carrier, while it has a stream.
type endpoint interface {
	// begin hands a stream over to the engine. It returns false if the queue pair is in a state
	// that takes none.
	begin(c *conn, p rdmap.Params) bool
	// first returns when check is due at first.
	first(p rdmap.Params) clock.Time
	// check does what is due when the peer has sent nothing, and returns when it is due again.
	check() clock.Time
	// draining reports whether the stream ends when the time of check has come.
	draining() bool
	// watch makes the network report what the stream waits for.
	watch()
	// receive takes what has arrived, and returns how much it found.
	receive() int
	// transmit sends what there is to send.
	transmit()
	// resumed continues what waited for a receive.
	resumed()
	// detach drops what is half sent.
	detach()
	// prompt reports whether what is posted is sent at once, and never held back for the next poll.
	prompt() bool
}
