// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/ramjet-rdma/ramjet/internal/app/live"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
)

const (
	standardHeight = 24 // of a terminal that does not report it
	// graphLeast is the narrowest graph at the end of a row.
	graphLeast = 8
	// deviceMost is how wide the names of devices get where there is room.
	deviceMost = 30
	// topHead is how many lines are above the rows, and topFoot below them.
	topHead, topFoot = 3, 1
)

// Styles. The program takes colors away for terminals that have none, and if NO_COLOR is set.
var (
	styleHeading = lipgloss.NewStyle().Bold(true)
	styleTitles  = lipgloss.NewStyle().Reverse(true)
	styleChosen  = lipgloss.NewStyle().Reverse(true).Bold(true)
	styleFaint   = lipgloss.NewStyle().Faint(true)
	styleGraph   = lipgloss.NewStyle().Foreground(lipgloss.Cyan)
	styleWarn    = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	styleBad     = lipgloss.NewStyle().Foreground(lipgloss.Red).Bold(true)
)

// View draws the screen.
func (m *topModel) View() tea.View {
	lines := m.lines()
	if len(lines) > m.height {
		lines = lines[:max(m.height, 0)]
	}
	text := strings.Join(lines, "\n")
	if m.levels.ascii() {
		text = inASCII(text)
	}
	v := tea.NewView(text)
	v.AltScreen = true
	v.WindowTitle = "ramjet top"
	return v
}

func (m *topModel) lines() []string {
	switch {
	case m.help:
		return m.helpLines()
	case m.page != nil:
		return append(m.filled(m.page.lines(m, m.height-topFoot), m.height-topFoot), m.footer())
	}
	lines := append([]string{m.title(), m.totals()}, m.table()...)
	return append(m.filled(lines, m.height-topFoot), m.footer())
}

// filled returns exactly the given number of lines.
func (m *topModel) filled(lines []string, n int) []string {
	n = max(n, 0)
	if len(lines) > n {
		return lines[:n]
	}
	return append(lines, make([]string, n-len(lines))...)
}

// fit returns text in exactly the given number of columns.
func fit(s string, width int, left bool) string {
	s = text.Snip(s, width, "…")
	gap := strings.Repeat(" ", max(width-text.StringWidthWithoutEscSequences(s), 0))
	if left {
		return s + gap
	}
	return gap + s
}

// cut returns what of a text fits.
func (m *topModel) cut(s string) string { return text.Snip(s, m.width, "…") }

func (m *topModel) title() string {
	processes, devices, qps := 0, 0, 0
	for _, p := range m.tracker.Processes() {
		if p.Gone.IsZero() {
			processes++
		}
		for _, d := range p.Devices {
			if d.Gone.IsZero() {
				devices++
				qps += len(d.Info.QPs)
			}
		}
	}
	title := fmt.Sprintf("ramjet top  %s every %s", m.at.Format(time.TimeOnly), units.Period(m.every))
	if m.paused {
		title += "  PAUSED"
	}
	return styleHeading.Render(m.cut(fmt.Sprintf("%s  %s, %s, %s", title, units.Plural(processes, "process"), units.Plural(devices, "device"),
		units.Plural(qps, "queue pair"))))
}

// totals is a line of what all processes do.
func (m *topModel) totals() string {
	var tx, txMsg, rx, rxMsg, again, rnrs float64
	for _, p := range m.tracker.Processes() {
		s := &p.Now
		tx, txMsg = tx+s.PerSecond(s.Counts.SentBytes), txMsg+s.PerSecond(s.Counts.SentMessages)
		rx, rxMsg = rx+s.PerSecond(s.Counts.RecvBytes), rxMsg+s.PerSecond(s.Counts.RecvMessages)
		again, rnrs = again+s.PerSecond(s.Counts.Retransmitted), rnrs+s.PerSecond(s.RNRs())
	}
	return m.cut(fmt.Sprintf("TX %s %s msg/s  RX %s %s msg/s  RETR %s  RNR %s",
		units.Rate(tx), units.Short(txMsg), units.Rate(rx), units.Short(rxMsg), units.PerSecond(again), units.PerSecond(rnrs)))
}

// listHeight is how many rows fit.
func (m *topModel) listHeight() int { return max(m.height-topHead-topFoot, 1) }

// columns returns those for which there is room, and the width of the graph behind them; 0: none.
func (m *topModel) columns() (list []topColumn, graph int) {
	all := topColumns
	if m.devices {
		all = topDeviceColumns
	}
	width := func(l []topColumn) (n int) {
		for i := range l {
			n += l[i].width + 1
		}
		return n
	}
	list = slices.Clone(all)
	for len(list) > 1 && width(list)+graphLeast > m.width {
		worst := slices.MaxFunc(list, func(a, b topColumn) int { return a.rank - b.rank })
		list = slices.DeleteFunc(list, func(c topColumn) bool { return c.rank == worst.rank })
	}
	graph = m.width - width(list)
	if at := slices.IndexFunc(list, func(c topColumn) bool { return c.name == "DEVICE" }); at >= 0 && graph > 2*graphLeast {
		more := min(graph-2*graphLeast, deviceMost-list[at].width)
		list[at].width += more
		graph -= more
	}
	if graph = min(graph, topSamples); graph < graphLeast {
		graph = 0
	}
	return list, graph
}

// table draws the titles of the columns, and the rows.
func (m *topModel) table() []string {
	columns, graph := m.columns()
	var titles []string
	for _, c := range columns {
		name := c.name
		if c.sort == m.sort.name {
			name = m.marked(name)
		}
		titles = append(titles, fit(name, c.width, c.left))
	}
	if graph > 0 {
		_, name := m.sort.graph()
		titles = append(titles, fit(name, graph, true))
	}
	lines := []string{styleTitles.Render(fit(strings.Join(titles, " "), m.width, true))}
	if len(m.rows) == 0 {
		return append(lines, "", m.cut(m.nothing()))
	}
	at, height := m.place(), m.listHeight()
	m.top = max(min(m.top, at, len(m.rows)-height), at-height+1, 0)
	for i := m.top; i < min(m.top+height, len(m.rows)); i++ {
		lines = append(lines, m.row(&m.rows[i], columns, graph, i == at))
	}
	return lines
}

// marked returns a column's name with a mark that the rows are sorted by it.
func (m *topModel) marked(name string) string {
	mark := "*"
	if !m.levels.ascii() {
		mark = map[bool]string{false: "▼", true: "▲"}[m.reverse]
	}
	return name + mark
}

// nothing says why there are no rows.
func (m *topModel) nothing() string {
	switch {
	case m.filter != "":
		return fmt.Sprintf("nothing matches %q: Esc clears the filter", m.filter)
	case len(m.tracker.Processes()) == 0 && m.pids > 0:
		return "the process has ended, or has no Ramjet device open: watching for it"
	case len(m.tracker.Processes()) == 0:
		return statNobody() + " has a Ramjet device open here: watching for one"
	case m.within != nil && !m.devices:
		return m.within.Info.Name + " has no queue pairs: Esc goes back"
	}
	return "no device has queue pairs: watching for one. Tab shows devices"
}

// row draws a row.
func (m *topModel) row(r *topRow, columns []topColumn, graph int, chosen bool) string {
	var cells []string
	for _, c := range columns {
		cell := fit(c.text(r), c.width, c.left)
		if style := m.cellStyle(r, c.name); style != nil && !chosen {
			cell = style.Render(cell)
		}
		cells = append(cells, cell)
	}
	if graph > 0 {
		of, _ := m.sort.graph()
		line := m.levels.line(seriesOf(r.Activity, graph, of))
		if !chosen {
			line = styleGraph.Render(line)
		}
		cells = append(cells, line)
	}
	switch line := m.cut(strings.Join(cells, " ")); {
	case chosen:
		return styleChosen.Render(fit(line, m.width, true))
	case !r.Gone.IsZero():
		return styleFaint.Render(line)
	default:
		return line
	}
}

// cellStyle returns how a cell stands out, or nil.
func (m *topModel) cellStyle(r *topRow, column string) *lipgloss.Style {
	switch {
	case column == "STATE" && r.qp != nil && (r.qp.Info.Failed != "" || r.state() == "ERR"):
		return &styleBad
	case column == "RETR/S" && r.Now.Counts.Retransmitted > 0, column == "RNR/S" && r.Now.RNRs() > 0:
		return &styleWarn
	}
	return nil
}

// seriesOf returns the newest values of an object's history, the width of their graph, and the largest.
func seriesOf(a *live.Activity, width int, of func(*live.Sample) float64) (values []float64, _ int, most float64) {
	history := a.History(width)
	for i := range history {
		v := of(&history[i])
		values, most = append(values, v), max(most, v)
	}
	return values, width, most
}

// footer is the last line: the filter while it is typed, a problem, or keys.
func (m *topModel) footer() string {
	switch {
	case m.typing:
		return m.cut("filter: " + m.filter + "_  Enter keeps it, Esc clears it")
	case m.problem != "":
		return styleWarn.Render(m.cut(m.problem))
	case m.page != nil:
		return styleFaint.Render(m.cut("Esc back  ↑↓ scroll  Space pause  ? help  q quit"))
	}
	keys := "q quit  ? help  Enter history  Tab devices  </> sort  / filter  Space pause"
	if m.devices {
		keys = "q quit  ? help  Enter its queue pairs  Tab queue pairs  </> sort  / filter  Space pause"
	}
	if m.within != nil {
		keys = "Esc all queue pairs  " + keys
	}
	if m.filter != "" {
		keys = fmt.Sprintf("filter %q: Esc clears it  ", m.filter) + keys
	}
	return styleFaint.Render(m.cut(keys))
}

// helpLines is the help.
func (m *topModel) helpLines() []string {
	lines := []string{
		styleHeading.Render(m.cut("Keys of ramjet top")),
		"  ↑ ↓ PgUp PgDn Home End  choose a row",
		"  Enter  history of a queue pair; queue pairs of a device",
		"  Esc    back; clears the filter",
		"  Tab    queue pairs, or devices",
		"  /      show rows with words: pid, comm, device, state, peer",
		"  Space  stop reading, and go on",
		"  q      quit",
		"  < > R  sort by another column; the other way round; or by",
	}
	for i := range topSorts {
		s := &topSorts[i]
		lines = append(lines, fmt.Sprintf("  %s      %s: %s", s.key, s.name, s.text))
	}
	lines = append(lines, "Bytes are payload, of both directions. Graphs are of what", "rows are sorted by. What has gone is shown for "+units.Period(topLinger)+".")
	for i := 1; i < len(lines); i++ {
		lines[i] = m.cut(lines[i])
	}
	return append(m.filled(lines, m.height-topFoot), styleFaint.Render(m.cut("any key goes back")))
}
