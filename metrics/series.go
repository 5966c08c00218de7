// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ramjet-rdma/ramjet/verbs"
)

const namespace = "ramjet_"

// named are the names that node_exporter has for what a device counts, by the device's own.
var named = map[string]string{
	"sent_bytes": "port_data_transmitted_bytes_total",
	"rcvd_bytes": "port_data_received_bytes_total",
	"sent_pkts":  "port_packets_transmitted_total",
	"rcvd_pkts":  "port_packets_received_total",
	"sent_fpdus": "port_packets_transmitted_total",
	"rcvd_fpdus": "port_packets_received_total",
	"sent_msgs":  "port_packets_transmitted_total",
	"rcvd_msgs":  "port_packets_received_total",
	"dropped":    "port_discards_received_total",
}

// helps are the texts of names that stand for the counters of several kinds of device, as a name has
// one text.
var helps = map[string]string{
	"port_data_transmitted_bytes_total": "bytes sent, retransmissions included: payload, or over iWARP all of the streams",
	"port_data_received_bytes_total":    "bytes received, those too that had come before: payload, or over iWARP all of the streams",
	"port_packets_transmitted_total":    "packets, FPDUs or, over shared memory, messages sent",
	"port_packets_received_total":       "packets, FPDUs or, over shared memory, messages received",
	"port_discards_received_total":      "packets or datagrams dropped, by reason",
}

// seriesName returns the name of a metric, without the prefix.
func seriesName(m *verbs.Metric) string {
	if name, ok := named[m.Name]; ok {
		return name
	}
	name := m.Name
	if unit, ok := map[verbs.MetricUnit]string{verbs.UnitBytes: "_bytes", verbs.UnitNanos: "_seconds"}[m.Unit]; ok && !strings.HasSuffix(name, unit) {
		name += unit
	}
	if m.Kind == verbs.MetricCounter {
		name += "_total"
	}
	return name
}

// label is a label of a series.
type label struct{ name, value string }

// metric tells a metric of the device, with its labels behind those given.
func (s *scrape) metric(m *verbs.Metric, labels ...label) {
	for _, l := range m.Labels {
		labels = append(labels, label{l.Name, l.Value})
	}
	name, kind, value := seriesName(m), prometheus.CounterValue, float64(m.Value)
	if m.Kind == verbs.MetricGauge {
		kind = prometheus.GaugeValue
	}
	if m.Unit == verbs.UnitNanos {
		value /= 1e9
	}
	help, ok := helps[name]
	if !ok {
		help = m.Help
	}
	s.send(name, help, kind, value, labels)
}

func (s *scrape) gauge(name, help string, value float64, labels ...label) {
	s.send(name, help, prometheus.GaugeValue, value, labels)
}

// send sends a series with the labels, and that of the device.
func (s *scrape) send(name, help string, kind prometheus.ValueType, value float64, labels []label) {
	names, values := []string{"device"}, []string{s.label}
	for _, l := range labels {
		names, values = append(names, l.name), append(values, l.value)
	}
	m, err := prometheus.NewConstMetric(prometheus.NewDesc(namespace+name, help, names, nil), kind, value, values...)
	if err != nil {
		m = prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
	}
	s.ch <- m
}
