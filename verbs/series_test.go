// SPDX-License-Identifier: Apache-2.0

package verbs_test

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Names have the unit, counters end in _total, and what node_exporter knows has its name.
func TestSeries(t *testing.T) {
	for want, m := range map[string]verbs.Metric{
		"port_data_received_bytes_total": {Name: "port_rcv_data", Unit: verbs.UnitBytes},
		"port_packets_transmitted_total": {Name: "sent_fpdus", Unit: verbs.UnitPackets},
		"timeouts_total":                 {Name: "timeouts", Unit: verbs.UnitEvents},
		"qps":                            {Name: "qps", Kind: verbs.MetricGauge, Unit: verbs.UnitObjects},
		"qp_sent_bytes_total":            {Name: "qp_sent_bytes", Unit: verbs.UnitBytes},
		"qp_rtt_seconds":                 {Name: "qp_rtt", Kind: verbs.MetricGauge, Unit: verbs.UnitNanos},
	} {
		m.Help = "its own text"
		name, help := m.Series()
		if name != want || help == "" {
			t.Errorf("%s: %q, %q", want, name, help)
		}
	}
}
