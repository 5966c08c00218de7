// SPDX-License-Identifier: Apache-2.0

package metric

import "strings"

// seriesNames are the names of node_exporter's InfiniBand collector, without its prefix, for counters that devices
// and the kernel's sysfs give other names.
var seriesNames = map[string]string{
	"sent_bytes": "port_data_transmitted_bytes_total",
	"rcvd_bytes": "port_data_received_bytes_total",
	"sent_pkts":  "port_packets_transmitted_total",
	"rcvd_pkts":  "port_packets_received_total",
	"sent_fpdus": "port_packets_transmitted_total",
	"rcvd_fpdus": "port_packets_received_total",
	"sent_msgs":  "port_packets_transmitted_total",
	"rcvd_msgs":  "port_packets_received_total",
	"dropped":    "port_discards_received_total",

	"port_xmit_data":                  "port_data_transmitted_bytes_total",
	"port_rcv_data":                   "port_data_received_bytes_total",
	"port_xmit_packets":               "port_packets_transmitted_total",
	"port_rcv_packets":                "port_packets_received_total",
	"port_xmit_discards":              "port_discards_transmitted_total",
	"port_rcv_errors":                 "port_errors_received_total",
	"port_xmit_wait":                  "port_transmit_wait_total",
	"port_rcv_constraint_errors":      "port_constraint_errors_received_total",
	"port_xmit_constraint_errors":     "port_constraint_errors_transmitted_total",
	"port_rcv_remote_physical_errors": "port_receive_remote_physical_errors_total",
	"port_rcv_switch_relay_errors":    "port_receive_switch_relay_errors_total",
	"VL15_dropped":                    "vl15_dropped_total",
}

// seriesHelps are the texts of names that stand for the counters of several kinds of device, as a name has one text.
var seriesHelps = map[string]string{
	"port_data_transmitted_bytes_total": "bytes sent, retransmissions included: payload, or over iWARP all of the streams",
	"port_data_received_bytes_total":    "bytes received, those too that had come before: payload, or over iWARP all of the streams",
	"port_packets_transmitted_total":    "packets, FPDUs or, over shared memory, messages sent",
	"port_packets_received_total":       "packets, FPDUs or, over shared memory, messages received",
	"port_discards_received_total":      "packets or datagrams dropped, by reason",
}

// Series returns the name under which Prometheus has the metric, without the prefix ramjet_, and the text for people:
// the name of node_exporter's InfiniBand collector where it has one, else the metric's own. The unit is in the name,
// and counters end in _total. Nanoseconds become seconds: the value is to be divided by 1e9.
func (m *Metric) Series() (name, help string) {
	name, ok := seriesNames[m.Name]
	if !ok {
		name = m.Name
		if unit, ok := map[Unit]string{UnitBytes: "_bytes", UnitNanos: "_seconds"}[m.Unit]; ok &&
			!strings.HasSuffix(name, unit) {
			name += unit
		}
		if m.Kind == Counter {
			name += "_total"
		}
	}
	if help, ok = seriesHelps[name]; !ok {
		help = m.Help
	}
	return name, help
}
