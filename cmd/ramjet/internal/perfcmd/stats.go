// SPDX-License-Identifier: Apache-2.0

package perfcmd

import (
	"fmt"
	"io"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// lastQPs returns the statistics of the queue pairs of the last run.
func (o *perfOutput) lastQPs() []verbs.QPStats {
	if len(o.rows) == 0 {
		return nil
	}
	runs := o.rows[len(o.rows)-1].Runs
	return runs[len(runs)-1].QPs
}

// writeStats writes the metrics of a device since it was opened, and of its queue pairs, without
// zeros.
func writeStats(w io.Writer, dev *verbs.Device, qps []verbs.QPStats) error {
	metrics, err := dev.Metrics()
	if err != nil {
		return fmt.Errorf("--stats: %w", err)
	}
	fmt.Fprintf(w, "\n%s:\n", dev.Name())
	writeMetrics(w, metrics)
	for i := range qps {
		q := &qps[i]
		fmt.Fprintf(w, "\nqueue pair %d of the last run, %v, %v, to %d at %s:\n", q.QPN, q.Type, q.State, q.DestQPN,
			cli.PeerOf(q))
		writeMetrics(w, q.Metrics())
	}
	return nil
}

func writeMetrics(w io.Writer, metrics []metric.Metric) {
	for i := range metrics {
		m := &metrics[i]
		if m.Value == 0 {
			continue
		}
		name := m.FlatName()
		if len(m.Labels) > 0 && m.Labels[0].Name == "qpn" { // the line above them says it
			name = m.Name
		}
		fmt.Fprintf(w, " %-28s %14d %-12s %s\n", name, m.Value, m.Unit, m.Help)
	}
}
