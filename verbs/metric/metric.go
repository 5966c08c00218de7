// SPDX-License-Identifier: Apache-2.0

package metric

import "strings"

// Kind says how the value of a metric changes.
type Kind uint8

const (
	Counter Kind = iota // only grows
	Gauge               // rises and falls
)

// String returns counter or gauge.
func (k Kind) String() string {
	if k == Gauge {
		return "gauge"
	}
	return "counter"
}

// Unit is the unit of a metric's value.
type Unit string

const (
	UnitBytes    Unit = "bytes"       // of payload or packets, as Help says
	UnitPackets  Unit = "packets"     // FPDUs over iWARP
	UnitMessages Unit = "messages"    // messages of the operations
	UnitEvents   Unit = "events"      // how often something happened
	UnitObjects  Unit = "objects"     // how many there are
	UnitNanos    Unit = "nanoseconds" // a duration
)

// Label tells metrics of one name apart.
type Label struct{ Name, Value string }

// Metric is a measured value.
type Metric struct {
	Name   string // as the kernel's drivers name it, where they have it
	Kind   Kind
	Unit   Unit
	Help   string  // the thing measured, in a few words
	Labels []Label // mostly none
	Value  uint64
}

// FlatName returns the name with the values of the labels behind it, such as dropped_icrc_error: for lists of counters
// without labels.
func (m *Metric) FlatName() string {
	var b strings.Builder
	b.WriteString(m.Name)
	for _, l := range m.Labels {
		b.WriteByte('_')
		b.WriteString(l.Value)
	}
	return b.String()
}
