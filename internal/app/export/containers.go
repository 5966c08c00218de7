// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"errors"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// Labels returns the labels of containers, by the names of their folders in a collector.
type Labels func(context.Context) (map[string][]metric.Label, error)

// errNoContainer is of processes whose container is unknown.
var errNoContainer = errors.New("no container has this folder")

// NewContainers makes an exporter of the containers whose processes come to a collector. Each has an equal share of the
// series, and so has each of its processes. Without labels no container has a name, so a scrape then fails.
func NewContainers(o Options, c *statsocket.Collector, labels Labels) *Exporter {
	return newExporter(func(ctx context.Context) ([]byte, error) {
		begin := time.Now()
		known, err := labels(ctx)
		if err != nil {
			return nil, err
		}
		counts := c.Counts()
		r := &report{text: newText(), options: o}
		err = c.Read(ctx, func(name string, p *statsocket.Process) {
			var of []label
			for _, l := range known[name] {
				of = append(of, label{l.Name, l.Value})
			}
			if of == nil && p.Err == nil {
				p.Err = errNoContainer
			}
			r.process(p, o.Series/max(1, len(counts))/max(1, counts[name]), of)
		})
		late := errors.Is(err, context.DeadlineExceeded)
		if err != nil && !late {
			return nil, err
		}
		return r.end(late, time.Since(begin)), nil
	})
}
