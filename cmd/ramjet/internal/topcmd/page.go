// SPDX-License-Identifier: Apache-2.0

package topcmd

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/statcmd"
	"github.com/ramjet-rdma/ramjet/internal/app/live"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

const (
	// seriesMost is how many lines a graph of a history has at most.
	seriesMost = 8
	// briefLeast is how many lines details below the rows need: a blank, a head, facts, titles, some series.
	briefLeast = 8
)

// topPage is the history of a queue pair, or of a device.
type topPage struct {
	topRow
	first int  // the first series on the screen
	brief bool // it is below the rows, and does not scroll
}

// topSeries is the subject of a line of the page: a counter or a state.
type topSeries struct {
	name  string
	count func(*metric.QPCounts) uint64 // nil: it is a state
	state func(*live.Sample) float64
	text  func(float64) string // of a state
	alone bool                 // only queue pairs have it: of several there is no sum
}

// topSeriesAll has the series in the words of `ramjet stat`.
var topSeriesAll = []topSeries{
	{name: "TX_BYTE", count: func(c *metric.QPCounts) uint64 { return c.SentBytes }},
	{name: "RX_BYTE", count: func(c *metric.QPCounts) uint64 { return c.RecvBytes }},
	{name: "TX_MSG", count: func(c *metric.QPCounts) uint64 { return c.SentMessages }},
	{name: "RX_MSG", count: func(c *metric.QPCounts) uint64 { return c.RecvMessages }},
	{name: "RTT", state: func(s *live.Sample) float64 { return float64(s.RTT) },
		text: func(v float64) string { return statcmd.RttText(time.Duration(v)) }},
	{name: "WINDOW", alone: true, state: func(s *live.Sample) float64 { return float64(s.Window) },
		text: units.Short[float64]},
	{name: "RATE", alone: true, state: func(s *live.Sample) float64 { return float64(s.Rate) },
		text: units.Short[float64]},
	{name: "ALPHA", alone: true, state: func(s *live.Sample) float64 { return s.Alpha },
		text: func(v float64) string { return statcmd.AlphaText(v) }},
	{name: "INFLIGHT", state: func(s *live.Sample) float64 { return float64(s.InFlight) }, text: units.Short[float64]},
	{name: "RETR", count: func(c *metric.QPCounts) uint64 { return c.Retransmitted }},
	{name: "TIMEO", count: func(c *metric.QPCounts) uint64 { return c.Timeouts }},
	{name: "LATE", count: func(c *metric.QPCounts) uint64 { return c.LateAcks }},
	{name: "SEQ", count: func(c *metric.QPCounts) uint64 { return c.SequenceErrors }},
	{name: "RESP", count: func(c *metric.QPCounts) uint64 { return c.LostResponses }},
	{name: "RNR", count: func(c *metric.QPCounts) uint64 { return c.RNRs }},
	{name: "DUP", count: func(c *metric.QPCounts) uint64 { return c.Duplicates }},
	{name: "TX_RNR", count: func(c *metric.QPCounts) uint64 { return c.SentRNRs }},
	{name: "MARKED", count: func(c *metric.QPCounts) uint64 { return c.Marked }},
	{name: "TX_CNP", count: func(c *metric.QPCounts) uint64 { return c.SentCNPs }},
	{name: "RX_CNP", count: func(c *metric.QPCounts) uint64 { return c.RecvCNPs }},
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

// series returns the series that the page has lines of. If they are brief and there is no room for all, series that
// were always zero are left out.
func (p *topPage) series(room int) []topSeries {
	all := topSeriesAll
	if p.qp == nil {
		all = slices.DeleteFunc(slices.Clone(all), func(t topSeries) bool { return t.alone })
	}
	if !p.brief || len(all) <= room {
		return all
	}
	history := p.History(topSamples)
	return slices.DeleteFunc(slices.Clone(all), func(t topSeries) bool {
		return t.name != all[0].name && t.of(&p.Now) == 0 &&
			!slices.ContainsFunc(history, func(s live.Sample) bool { return t.of(&s) != 0 })
	})
}

// lines draws the page in the given number of lines.
func (p *topPage) lines(m *topModel, height int) []string {
	lines := p.head(m)
	const name, number = 8, 6
	graph := min(max(m.width-name-3*(number+1)-1, 0), topSamples)
	titles := fit("", name, true) + " " + fit("NOW", number, false) + " " + fit("MAX", number, false) + " " +
		fit("TOTAL", number, false)
	lines = append(lines, styleTitles.Render(fit(titles+" "+p.span(), m.width, true)))

	room := max(height-len(lines), 1)
	all := p.series(room)
	spare := max(room-len(all), 0) // makes the first graphs higher
	p.first = min(p.first, max(len(all)-room, 0))
	for i := p.first; i < len(all) && room > 0; i++ {
		t := &all[i]
		values, _, most := seriesOf(p.Activity, topSamples, t.of)
		high := 1
		if most > 0 {
			high += min(spare, seriesMost-1)
		}
		spare -= high - 1
		total := "-"
		if t.count != nil && p.qp != nil {
			total = units.Short(t.count(&p.qp.Info.QPCounts))
		}
		cells := fit(t.name, name, true) + " " + fit(t.show(t.of(&p.Now)), number, false) + " " +
			fit(t.show(most), number, false) + " " + fit(total, number, false)
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
	h := p.History(topSamples)
	if len(h) < 2 {
		return "PER SECOND"
	}
	return "PER SECOND, last " + units.Period(h[len(h)-1].At.Sub(h[0].At).Round(time.Second))
}

// head returns the lines with the object's name, and its state.
func (p *topPage) head(m *topModel) []string {
	if p.qp == nil {
		return p.deviceHead(m)
	}
	q, i := p.qp, &p.qp.Info
	d := q.Device
	lines := []string{styleHeading.Render(m.cut(fmt.Sprintf("queue pair %d %v %v  link %s/1 pid %d%s", i.QPN, i.Type,
		i.State, d.Info.Name, d.Process.PID, statcmd.CommOf(d.Process.Command))))}
	facts := []string{"RQPN " + statcmd.QpnText(i.DestQPN), "PEER " + statcmd.Peer(i),
		fmt.Sprintf("SQ %d", i.SendQueue), fmt.Sprintf("RQ %d", i.RecvQueue),
		"INFLIGHT " + units.Short(i.InFlight), "WINDOW " + statcmd.WindowText(i.Window)}
	if i.Rate > 0 || i.TargetDelay > 0 {
		facts = append(facts, "CC "+i.Congestion, "RATE "+statcmd.PacedText(i.Rate),
			"ALPHA "+statcmd.AlphaText(i.Alpha), "TARGET "+statcmd.RttText(i.TargetDelay))
	}
	if i.RTT > 0 {
		facts = append(facts, "RTT "+statcmd.RttText(i.RTT)+" ±"+statcmd.RttText(i.RTTVar))
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
	lines = append(lines, p.injected(m)...)
	if !q.Gone.IsZero() {
		lines = append(lines, styleWarn.Render(m.cut("it ended at "+q.Gone.Format(time.TimeOnly))))
	}
	return lines
}

// deviceHead says which device it is, the state of its port, and how fast its own counters grow.
func (p *topPage) deviceHead(m *topModel) []string {
	d := p.device
	lines := []string{styleHeading.Render(m.cut(fmt.Sprintf("device %s  pid %d%s", d.Info.Name, d.Process.PID,
		statcmd.CommOf(d.Process.Command))))}
	facts := []string{"STATE " + p.state(), fmt.Sprintf("QP %d", len(d.Info.QPs)),
		fmt.Sprintf("CQ %d", len(d.Info.CQs)),
		"INFLIGHT " + units.Short(d.Now.InFlight), fmt.Sprintf("WAITING %d", d.Now.Waiting)}
	for _, name := range slices.Sorted(maps.Keys(d.Rates)) {
		facts = append(facts, name+" "+units.PerSecond(d.Rates[name]))
	}
	const most = 4 // lines of facts
	wrap := wrapped(facts, m.width)
	lines = append(lines, wrap[:min(len(wrap), most)]...)
	lines = append(lines, p.injected(m)...)
	if !d.Gone.IsZero() {
		lines = append(lines, styleWarn.Render(m.cut("it ended at "+d.Gone.Format(time.TimeOnly))))
	}
	return lines
}

// injected returns the requested faults that have struck it.
func (p *topPage) injected(m *topModel) []string {
	if text := p.topRow.injected(); text != "" {
		return []string{styleWarn.Render(m.cut("injected faults: " + text))}
	}
	return nil
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
