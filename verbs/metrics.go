// SPDX-License-Identifier: Apache-2.0

package verbs

import "strings"

// MetricKind says how the value of a metric changes.
type MetricKind uint8

const (
	MetricCounter MetricKind = iota // only grows
	MetricGauge                     // rises and falls
)

// String returns counter or gauge.
func (k MetricKind) String() string {
	if k == MetricGauge {
		return "gauge"
	}
	return "counter"
}

// MetricUnit is the unit of a metric's value.
type MetricUnit string

const (
	UnitBytes    MetricUnit = "bytes"       // of payload or packets, as Help says
	UnitPackets  MetricUnit = "packets"     // FPDUs over iWARP
	UnitMessages MetricUnit = "messages"    // messages of the operations
	UnitEvents   MetricUnit = "events"      // how often something happened
	UnitObjects  MetricUnit = "objects"     // how many there are
	UnitNanos    MetricUnit = "nanoseconds" // a duration
)

// MetricLabel tells metrics of one name apart.
type MetricLabel struct{ Name, Value string }

// Metric is a measured value.
type Metric struct {
	Name   string // as the kernel's drivers name it, where they have it
	Kind   MetricKind
	Unit   MetricUnit
	Help   string        // what it measures, in a few words
	Labels []MetricLabel // mostly none
	Value  uint64
}

// FlatName returns the name with the values of the labels behind it, such as dropped_icrc_error: as
// lists of counters have it that know no labels.
func (m *Metric) FlatName() string {
	var b strings.Builder
	b.WriteString(m.Name)
	for _, l := range m.Labels {
		b.WriteByte('_')
		b.WriteString(l.Value)
	}
	return b.String()
}
