// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

const namespace = "ramjet_"

// label is a label of a series.
type label struct{ name, value string }

// metric emits a metric of the device, with its labels behind the given ones. Its own replace given ones of the same
// name.
func (s *scrape) metric(m *metric.Metric, given ...label) {
	var labels []label
	for _, l := range given {
		if !slices.ContainsFunc(m.Labels, func(own metric.Label) bool { return own.Name == l.name }) {
			labels = append(labels, l)
		}
	}
	for _, l := range m.Labels {
		labels = append(labels, label{l.Name, l.Value})
	}
	name, help := m.Series()
	kind, value := prometheus.CounterValue, float64(m.Value)
	if m.Kind == metric.Gauge {
		kind = prometheus.GaugeValue
	}
	if m.Unit == metric.UnitNanos {
		value /= 1e9
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
