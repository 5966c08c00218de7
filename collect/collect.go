// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"net"

	"github.com/ramjet-rdma/ramjet/internal/app/export"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// Variable is the variable of a container's environment that has the path of its socket.
const Variable = statsocket.CollectorVariable

// Socket is the name of the socket in a container's folder.
const Socket = statsocket.CollectorSocket

// ErrUnsupported is the error of systems other than Linux.
var ErrUnsupported = statsocket.ErrUnsupported

// Collector takes the state of processes that come to its sockets. Its methods may be called by several goroutines.
type Collector struct{ sockets *statsocket.Collector }

// New returns a collector without folders.
func New() *Collector { return &Collector{statsocket.NewCollector()} }

// Listen listens in a folder, which exists, for the processes of a container that has the name. A socket that is there
// already is replaced. Nothing happens if the name has the folder already.
func (c *Collector) Listen(name, folder string) error { return c.sockets.Listen(name, folder) }

// Remove closes the socket that Listen made. The folder stays. It is no error if there is no such name.
func (c *Collector) Remove(name string) error { return c.sockets.Remove(name) }

// Close removes all names. The folders stay.
func (c *Collector) Close() error { return c.sockets.Close() }

// Labels returns the labels of containers, by the names that they have in a collector. It is asked at each scrape, and
// ends with the context. A container without labels is counted, and nothing of it is shown.
type Labels func(context.Context) (map[string][]metric.Label, error)

// Options bound the series.
type Options struct {
	// Series is how many series there are of all containers together. Each container may have an equal share, and in it
	// each process.
	Series int
	// QueuePairs is how many queue pairs of each device have series of their own: the lowest numbers.
	QueuePairs int
}

// Serve answers scrapes at /metrics until ctx ends, and closes the listener. The series are the same as of `ramjet
// export`, with a container's labels before the label pid. A scrape fails while labels does. Scrapes at the same time
// share a reading.
func (c *Collector) Serve(ctx context.Context, l net.Listener, labels Labels, o Options) error {
	return export.NewContainers(export.Options{Series: o.Series, QueuePairs: o.QueuePairs, Version: softdev.Version()},
		c.sockets, export.Labels(labels)).Serve(ctx, l)
}
