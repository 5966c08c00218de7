// SPDX-License-Identifier: Apache-2.0

package metric_test

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// Names have the unit, counters end in _total, and counters of node_exporter have their names there.
func TestSeries(t *testing.T) {
	for want, m := range map[string]metric.Metric{
		"port_data_received_bytes_total": {Name: "port_rcv_data", Unit: metric.UnitBytes},
		"port_packets_transmitted_total": {Name: "sent_fpdus", Unit: metric.UnitPackets},
		"timeouts_total":                 {Name: "timeouts", Unit: metric.UnitEvents},
		"qps":                            {Name: "qps", Kind: metric.Gauge, Unit: metric.UnitObjects},
		"qp_sent_bytes_total":            {Name: "qp_sent_bytes", Unit: metric.UnitBytes},
		"qp_rtt_seconds":                 {Name: "qp_rtt", Kind: metric.Gauge, Unit: metric.UnitNanos},
	} {
		m.Help = "its own text"
		name, help := m.Series()
		if name != want || help == "" {
			t.Errorf("%s: %q, %q", want, name, help)
		}
	}
}
