// SPDX-License-Identifier: Apache-2.0

package topcmd

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/live"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
)

const (
	standardHeight = 24 // of a terminal that does not report it
	// graphLeast is the narrowest graph at the end of a row.
	graphLeast = 8
	// deviceMost is how wide the names of devices get where there is room.
	deviceMost = 30
	// topHead is how many lines are above the rows, and topFoot below all.
	topHead, topFoot = 3, 1
	// topTall is how many lines for rows and details a screen has on which long lists leave a third to details.
	topTall = 30
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
		text = cli.InASCII(text)
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
	lines := append([]string{m.title(), m.totals()}, m.list()...)
	if room := m.height - topFoot - topHead - m.listHeight(); room >= briefLeast && len(m.rows) > 0 {
		lines = append(m.filled(lines, topHead+m.listHeight()), m.below(room)...)
	}
	return append(m.filled(lines, m.height-topFoot), m.footer())
}

// below draws as much as the rows leave room for: their facts, and the history of the chosen one.
func (m *topModel) below(room int) (lines []string) {
	name, chosen := "devices", m.rows[m.place()]
	var others []topRow
	if m.devices {
		name = "queue pairs of " + chosen.device.Info.Name
		others = m.rowsOf(nil, false, chosen.device)
	} else {
		others = m.rowsOf(nil, true, nil)
	}
	page := &topPage{topRow: chosen, brief: true}
	if n := min(len(others), (room-briefLeast)/2, max(room/3, 4)); n > 0 {
		lines = append(lines, styleHeading.Render(m.cut(name)))
		lines = append(lines, m.table(others[:n], !m.devices, -1)...)
		lines = append(lines, "")
	}
	return append(lines, page.lines(m, room-len(lines))...)
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

// fitting joins the words that fit, two spaces apart.
func (m *topModel) fitting(words ...string) string {
	line := words[0]
	for _, w := range words[1:] {
		if text.StringWidthWithoutEscSequences(line)+2+text.StringWidthWithoutEscSequences(w) > m.width {
			break
		}
		line += "  " + w
	}
	return m.cut(line)
}

// cut returns the part of a text that fits.
func (m *topModel) cut(s string) string { return text.Snip(s, m.width, "…") }

func (m *topModel) title() string {
	processes, devices, qps, faulty := 0, 0, 0, 0
	for _, p := range m.tracker.Processes() {
		if p.Gone.IsZero() {
			processes++
		}
		for _, d := range p.Devices {
			if d.Gone.IsZero() {
				devices++
				qps += len(d.Info.QPs)
				if d.Info.InjectedText(0) != "" {
					faulty++
				}
			}
		}
	}
	words := []string{fmt.Sprintf("ramjet top  %s every %s", m.at.Format(time.TimeOnly), units.Period(m.every))}
	if m.paused {
		words = append(words, "PAUSED")
	}
	words = append(words, fmt.Sprintf("%s, %s, %s", units.Plural(processes, "process"), units.Plural(devices, "device"),
		units.Plural(qps, "queue pair")))
	if faulty > 0 {
		words = append(words, units.Plural(faulty, "device")+" with injected faults")
	}
	return styleHeading.Render(m.fitting(words...))
}

// totals is a line with the sums of all processes, with a graph where there is room.
func (m *topModel) totals() string {
	s := &m.sum
	tx, rx := units.Rate(s.PerSecond(s.Counts.SentBytes)), units.Rate(s.PerSecond(s.Counts.RecvBytes))
	again, rnrs := "RETR "+units.PerSecond(s.PerSecond(s.Counts.Retransmitted)),
		"RNR "+units.PerSecond(s.PerSecond(s.RNRs()))
	line := fmt.Sprintf("TX %s %s msg/s  RX %s %s msg/s  %s  %s", tx, units.Short(s.PerSecond(s.Counts.SentMessages)),
		rx, units.Short(s.PerSecond(s.Counts.RecvMessages)), again, rnrs)
	if len(line) > m.width {
		return m.fitting("TX "+tx, "RX "+rx, again, rnrs)
	}
	const least = 20 // of the graph's columns
	at, name := max(len(line), cli.StandardWidth), "  BYTE/S "
	if graph := min(m.width-at-len(name), topSamples); graph >= least {
		history := m.all.Last(graph)
		values, most := make([]float64, len(history)), 0.0
		for i := range history {
			values[i] = bytesPerSecond(&history[i])
			most = max(most, values[i])
		}
		line = fit(line, at, true) + name + styleGraph.Render(m.levels.line(values, graph, most))
	}
	return line
}

// listHeight is how many lines the rows have. It is a multiple of four where that leaves room for details, so
// that these stay where they are when a row comes or goes.
func (m *topModel) listHeight() int {
	room := max(m.height-topHead-topFoot, 1)
	most := room
	if room >= topTall {
		most = room * 2 / 3
	}
	if want := (len(m.rows) + 4) / 4 * 4; room-min(want, most) >= briefLeast && len(m.rows) > 0 {
		return min(want, most)
	}
	return room
}

// columns returns the columns for which there is room, and the width of the graph behind them; 0: none.
func (m *topModel) columns(devices bool) (list []topColumn, graph int) {
	all := topColumns
	if devices {
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
	if at := slices.IndexFunc(list, func(c topColumn) bool { return c.name == "DEVICE" }); at >= 0 &&
		graph > 2*graphLeast {
		more := min(graph-2*graphLeast, deviceMost-list[at].width)
		list[at].width += more
		graph -= more
	}
	if graph = min(graph, topSamples); graph < graphLeast {
		graph = 0
	}
	return list, graph
}

// list draws the rows that there is room for, or says why there are none.
func (m *topModel) list() []string {
	if len(m.rows) == 0 {
		return append(m.table(nil, m.devices, -1), "", m.cut(m.nothing()))
	}
	at, height := m.place(), m.listHeight()
	m.top = max(min(m.top, at, len(m.rows)-height), at-height+1, 0)
	return m.table(m.rows[m.top:min(m.top+height, len(m.rows))], m.devices, at-m.top)
}

// table draws the titles of the columns, and rows, of which one may be chosen.
func (m *topModel) table(rows []topRow, devices bool, chosen int) []string {
	columns, graph := m.columns(devices)
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
	for i := range rows {
		lines = append(lines, m.row(&rows[i], columns, graph, i == chosen))
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
		return cli.NoProcess() + " has a Ramjet device open here: watching for one"
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
	case column == "DEVICE" && r.injected() != "":
		return &styleWarn
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
		return styleFaint.Render(m.fitting("Esc back", "↑↓ scroll", "Space pause", "? help", "q quit"))
	}
	words := []string{"q quit", "? help", "Enter history", "Tab devices", "</> sort", "/ filter", "Space pause"}
	if m.devices {
		words[2], words[3] = "Enter its queue pairs", "Tab queue pairs"
	}
	if m.within != nil {
		words = slices.Insert(words, 0, "Esc all queue pairs")
	}
	if m.filter != "" {
		words = slices.Insert(words, 0, fmt.Sprintf("filter %q: Esc clears it", m.filter))
	}
	return styleFaint.Render(m.fitting(words...))
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
	lines = append(lines, "Details below are those of the chosen row.",
		"Bytes are payload, of both directions. Graphs are of what",
		"rows are sorted by. What has gone is shown for "+units.Period(topLinger)+".")
	for i := 1; i < len(lines); i++ {
		lines[i] = m.cut(lines[i])
	}
	return append(m.filled(lines, m.height-topFoot), styleFaint.Render(m.cut("any key goes back")))
}
