// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/ramjet-rdma/ramjet/internal/app/live"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// topPage is the history of a queue pair.
type topPage struct {
	qp    *live.QP
	first int // the first series on the screen
}

// topSeries is the subject of a line of the page: a counter or a state.
type topSeries struct {
	name  string
	count func(*verbs.QPCounts) uint64 // nil: it is a state
	state func(*live.Sample) float64
	text  func(float64) string // of a state
}

// topSeriesAll has the series in the words of `ramjet stat`.
var topSeriesAll = []topSeries{
	{name: "TX_BYTE", count: func(c *verbs.QPCounts) uint64 { return c.SentBytes }},
	{name: "RX_BYTE", count: func(c *verbs.QPCounts) uint64 { return c.RecvBytes }},
	{name: "TX_MSG", count: func(c *verbs.QPCounts) uint64 { return c.SentMessages }},
	{name: "RX_MSG", count: func(c *verbs.QPCounts) uint64 { return c.RecvMessages }},
	{name: "RTT", state: func(s *live.Sample) float64 { return float64(s.RTT) }, text: func(v float64) string { return rttText(time.Duration(v)) }},
	{name: "WINDOW", state: func(s *live.Sample) float64 { return float64(s.Window) }, text: units.Short[float64]},
	{name: "INFLIGHT", state: func(s *live.Sample) float64 { return float64(s.InFlight) }, text: units.Short[float64]},
	{name: "RETR", count: func(c *verbs.QPCounts) uint64 { return c.Retransmitted }},
	{name: "TIMEO", count: func(c *verbs.QPCounts) uint64 { return c.Timeouts }},
	{name: "LATE", count: func(c *verbs.QPCounts) uint64 { return c.LateAcks }},
	{name: "SEQ", count: func(c *verbs.QPCounts) uint64 { return c.SequenceErrors }},
	{name: "RESP", count: func(c *verbs.QPCounts) uint64 { return c.LostResponses }},
	{name: "RNR", count: func(c *verbs.QPCounts) uint64 { return c.RNRs }},
	{name: "DUP", count: func(c *verbs.QPCounts) uint64 { return c.Duplicates }},
	{name: "TX_RNR", count: func(c *verbs.QPCounts) uint64 { return c.SentRNRs }},
	{name: "SQ", state: func(s *live.Sample) float64 { return float64(s.SendQueue) }, text: units.Short[float64]},
	{name: "WAITING", state: func(s *live.Sample) float64 { return float64(s.Waiting) }, text: units.Short[float64]},
}

// of returns the value of a sample: of a counter its rate.
func (t *topSeries) of(s *live.Sample) float64 {
	if t.count != nil {
		return s.PerSecond(t.count(&s.Counts))
	}
	return t.state(s)
}

func (t *topSeries) show(v float64) string {
	if t.count != nil {
		return units.Short(v)
	}
	return t.text(v)
}

// lines draws the page in the given number of lines.
func (p *topPage) lines(m *topModel, height int) []string {
	lines := p.head(m)
	const name, number = 8, 6
	graph := min(max(m.width-name-3*(number+1)-1, 0), topSamples)
	titles := fit("", name, true) + " " + fit("NOW", number, false) + " " + fit("MAX", number, false) + " " + fit("TOTAL", number, false)
	lines = append(lines, styleTitles.Render(fit(titles+" "+p.span(), m.width, true)))

	room := max(height-len(lines), 1)
	tall := 1 // the first series has what the others leave
	if room > len(topSeriesAll) {
		tall = room - len(topSeriesAll) + 1
	}
	p.first = min(p.first, max(len(topSeriesAll)-room, 0))
	for i := p.first; i < len(topSeriesAll) && room > 0; i++ {
		t := &topSeriesAll[i]
		values, _, most := seriesOf(&p.qp.Activity, topSamples, t.of)
		high := 1
		if i == 0 {
			high = min(tall, 12)
		}
		total := "-"
		if t.count != nil {
			total = units.Short(t.count(&p.qp.Info.QPCounts))
		}
		cells := fit(t.name, name, true) + " " + fit(t.show(t.of(&p.qp.Now)), number, false) + " " + fit(t.show(most), number, false) + " " + fit(total, number, false)
		drawn := m.levels.lines(values, graph, high, most)
		for at, line := range drawn {
			label := strings.Repeat(" ", text.StringWidthWithoutEscSequences(cells))
			if at == len(drawn)-1 {
				label = cells
			}
			lines = append(lines, label+" "+styleGraph.Render(line))
		}
		room -= high
	}
	for i, l := range lines {
		lines[i] = m.cut(l)
	}
	return lines
}

// span says how long the graph reaches back.
func (p *topPage) span() string {
	h := p.qp.History(topSamples)
	if len(h) < 2 {
		return "PER SECOND"
	}
	return "PER SECOND, last " + units.Period(h[len(h)-1].At.Sub(h[0].At).Round(time.Second))
}

// head says which queue pair it is, and its state.
func (p *topPage) head(m *topModel) []string {
	q, i := p.qp, &p.qp.Info
	d := q.Device
	lines := []string{styleHeading.Render(m.cut(fmt.Sprintf("queue pair %d %v %v  link %s/1 pid %d%s", i.QPN, i.Type, i.State, d.Info.Name, d.Process.PID, commOf(d.Process.Command))))}
	facts := []string{"RQPN " + qpnText(i.DestQPN), "PEER " + statPeer(i), fmt.Sprintf("SQ %d", i.SendQueue), fmt.Sprintf("RQ %d", i.RecvQueue),
		"INFLIGHT " + units.Short(i.InFlight), "WINDOW " + windowText(i.Window)}
	if i.RTT > 0 {
		facts = append(facts, "RTT "+rttText(i.RTT)+" ±"+rttText(i.RTTVar))
	}
	if q.Gone.IsZero() {
		facts = append(facts, fmt.Sprintf("WAITING %d", q.Now.Waiting))
	}
	if !q.StateChanged.IsZero() {
		facts = append(facts, "STATE since "+q.StateChanged.Format(time.TimeOnly))
	}
	lines = append(lines, wrapped(facts, m.width)...)
	if i.Failed != "" {
		lines = append(lines, styleBad.Render(m.cut(i.Failed)))
	}
	if !q.Gone.IsZero() {
		lines = append(lines, styleWarn.Render(m.cut("it ended at "+q.Gone.Format(time.TimeOnly))))
	}
	return lines
}

// wrapped puts words into lines, two spaces apart.
func wrapped(words []string, width int) (lines []string) {
	line := ""
	for _, w := range words {
		if line != "" && text.StringWidthWithoutEscSequences(line)+2+text.StringWidthWithoutEscSequences(w) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += "  "
		}
		line += w
	}
	return append(lines, line)
}
