// SPDX-License-Identifier: Apache-2.0

package topcmd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/statcmd"
	"github.com/ramjet-rdma/ramjet/internal/app/live"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
)

// topRow is a row of `ramjet top`: a queue pair, or a device.
type topRow struct {
	*live.Activity
	device *live.Device
	qp     *live.QP // nil: the row is of the device
}

// matches reports whether a row has all words somewhere.
func (r *topRow) matches(words []string) bool {
	if len(words) == 0 {
		return true
	}
	p := r.device.Process
	text := fmt.Sprintf("%d %s %s", p.PID, p.Command, r.device.Info.Name)
	if q := r.qp; q != nil {
		text += fmt.Sprintf(" %d %v %v %d %s", q.Info.QPN, q.Info.Type, q.Info.State, q.Info.DestQPN,
			statcmd.Peer(&q.Info))
	}
	text = strings.ToLower(text)
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// topSort is an order of rows, the largest first.
type topSort struct {
	name, key string
	text      string
	value     func(*live.Sample) float64 // nil: rows are by process id
}

// topSorts has all orders. The first is the default.
var topSorts = []topSort{
	{"bytes", "b", "bytes a second", bytesPerSecond},
	{"messages", "m", "messages a second", func(s *live.Sample) float64 { return s.PerSecond(s.Messages()) }},
	{"retransmissions", "r", "packets retransmitted a second",
		func(s *live.Sample) float64 { return s.PerSecond(s.Counts.Retransmitted) }},
	{"rnr", "n", "RNR NAKs a second", func(s *live.Sample) float64 { return s.PerSecond(s.RNRs()) }},
	{"rtt", "t", "round trip", func(s *live.Sample) float64 { return float64(s.RTT) }},
	{"inflight", "i", "bytes that are not acknowledged", func(s *live.Sample) float64 { return float64(s.InFlight) }},
	{"waiting", "w", "completions that wait to be polled", func(s *live.Sample) float64 { return float64(s.Waiting) }},
	{"pid", "p", "process id", nil},
}

func bytesPerSecond(s *live.Sample) float64 { return s.PerSecond(s.Bytes()) }

// graph returns the value that the graphs show, and its name.
func (s *topSort) graph() (of func(*live.Sample) float64, name string) {
	if s.value == nil {
		return bytesPerSecond, "BYTE/S"
	}
	at := slices.IndexFunc(topColumns, func(c topColumn) bool { return c.sort == s.name })
	return s.value, topColumns[at].name
}

func SortNames() (names []string) {
	for i := range topSorts {
		names = append(names, topSorts[i].name)
	}
	return names
}

// topSortNamed returns an order, or nil.
func topSortNamed(name string) *topSort {
	for i := range topSorts {
		if topSorts[i].name == name {
			return &topSorts[i]
		}
	}
	return nil
}

// compare says which row is above: gone ones are always last.
func (s *topSort) compare(a, b *topRow, reverse bool) int {
	if gone := cmp.Compare(boolInt(!a.Gone.IsZero()), boolInt(!b.Gone.IsZero())); gone != 0 {
		return gone
	}
	c := cmp.Compare(a.device.Process.PID, b.device.Process.PID)
	if s.value != nil {
		c = cmp.Compare(s.value(&b.Now), s.value(&a.Now))
	}
	if reverse {
		c = -c
	}
	c = cmp.Or(c, cmp.Compare(a.device.Process.PID, b.device.Process.PID), cmp.Compare(a.device.ID, b.device.ID))
	if c == 0 && a.qp != nil && b.qp != nil {
		c = cmp.Compare(a.qp.Info.QPN, b.qp.Info.QPN)
	}
	return cmp.Or(c, cmp.Compare(a.ID, b.ID))
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// topColumn is a column. Columns that the screen has no room for are left out, the largest rank first.
type topColumn struct {
	name  string
	width int
	rank  int
	left  bool   // its text stands at the left
	sort  string // the order by it; empty: none
	text  func(*topRow) string
}

// topColumns are the columns of queue pairs, and topDeviceColumns of devices. A graph follows them. Columns that
// rows can be sorted by have room for a mark.
var (
	topColumns = []topColumn{
		{"PID", 7, 3, false, "pid", (*topRow).pid},
		{"COMM", 12, 11, true, "", (*topRow).comm},
		{"DEVICE", 18, 5, true, "", (*topRow).name},
		{"LQPN", 8, 0, false, "", func(r *topRow) string { return fmt.Sprint(r.qp.Info.QPN) }},
		{"TYPE", 4, 14, true, "", func(r *topRow) string { return r.qp.Info.Type.String() }},
		{"STATE", 5, 2, true, "", (*topRow).state},
		{"PEER", 15, 12, true, "", func(r *topRow) string { return statcmd.Peer(&r.qp.Info) }},
		{"MSG/S", 6, 4, false, "messages", (*topRow).messages},
		{"BYTE/S", 7, 1, false, "bytes", (*topRow).bytes},
		{"RETR/S", 7, 6, false, "retransmissions", (*topRow).retransmissions},
		{"RNR/S", 6, 9, false, "rnr", (*topRow).rnrs},
		{"INFLIGHT", 9, 10, false, "inflight", func(r *topRow) string { return units.Short(r.Now.InFlight) }},
		{"WAITING", 8, 13, false, "waiting", (*topRow).waiting},
		{"RTT", 6, 7, false, "rtt", func(r *topRow) string { return statcmd.RttText(r.Now.RTT) }},
	}
	topDeviceColumns = []topColumn{
		{"PID", 7, 3, false, "pid", (*topRow).pid},
		{"COMM", 12, 8, true, "", (*topRow).comm},
		{"DEVICE", 18, 0, true, "", (*topRow).name},
		{"STATE", 6, 7, true, "", (*topRow).state},
		{"QP", 5, 5, false, "", func(r *topRow) string { return units.Short(len(r.device.Info.QPs)) }},
		{"MSG/S", 6, 2, false, "messages", (*topRow).messages},
		{"BYTE/S", 7, 1, false, "bytes", (*topRow).bytes},
		{"RETR/S", 7, 4, false, "retransmissions", (*topRow).retransmissions},
		{"RNR/S", 6, 9, false, "rnr", (*topRow).rnrs},
		{"INFLIGHT", 9, 11, false, "inflight", func(r *topRow) string { return units.Short(r.Now.InFlight) }},
		{"WAITING", 8, 6, false, "waiting", (*topRow).waiting},
		{"RTT", 6, 10, false, "rtt", func(r *topRow) string { return statcmd.RttText(r.Now.RTT) }},
	}
)

func (r *topRow) pid() string      { return fmt.Sprint(r.device.Process.PID) }
func (r *topRow) comm() string     { return r.device.Process.Command }
func (r *topRow) name() string     { return r.device.Info.Name }
func (r *topRow) messages() string { return units.Short(r.Now.PerSecond(r.Now.Messages())) }
func (r *topRow) bytes() string    { return units.Short(r.Now.PerSecond(r.Now.Bytes())) }
func (r *topRow) rnrs() string     { return units.Short(r.Now.PerSecond(r.Now.RNRs())) }
func (r *topRow) waiting() string  { return units.Short(r.Now.Waiting) }

func (r *topRow) retransmissions() string {
	return units.Short(r.Now.PerSecond(r.Now.Counts.Retransmitted))
}

// injected returns the requested faults that have struck the queue pair, or the device.
func (r *topRow) injected() string {
	if r.qp != nil {
		return r.device.Info.InjectedText(r.qp.Info.QPN)
	}
	return r.device.Info.InjectedText(0)
}

// state returns the state of the queue pair, or of the device's first port.
func (r *topRow) state() string {
	switch {
	case !r.Gone.IsZero():
		return "gone"
	case r.qp != nil:
		return r.qp.Info.State.String()
	case len(r.device.Info.Ports) > 0:
		return statcmd.PortState(r.device.Info.Ports[0].State)
	}
	return "-"
}
