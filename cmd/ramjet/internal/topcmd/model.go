// SPDX-License-Identifier: Apache-2.0

package topcmd

import (
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ramjet-rdma/ramjet/internal/app/live"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
)

// maxFilter is how long a filter may be, in characters.
const maxFilter = 64

// topModel is the state of `ramjet top`. Snapshots come to it as messages, so tests need no terminal.
type topModel struct {
	read    func() ([]statsocket.Process, error)
	every   time.Duration
	tracker *live.Tracker
	at      time.Time // of the last read
	problem string    // why something could not be read
	pids    int       // how many processes were named; 0: all are watched

	width, height int
	levels        graphLevels

	sort    *topSort
	reverse bool
	devices bool         // rows are devices, not queue pairs
	within  *live.Device // whose queue pairs are shown; nil: all
	filter  string
	typing  bool // keys go to the filter

	all      live.History // of all processes together
	sum      live.Sample  // its newest
	rows     []topRow
	selected uint64 // the ID of a row; 0: the first one, whichever that is
	top      int    // the first row on the screen

	page   *topPage // nil: the rows are shown
	help   bool
	paused bool
	due    bool // a read should have begun while it was paused
}

// Init begins to wait for the second read.
func (m *topModel) Init() tea.Cmd { return m.wait() }

func (m *topModel) wait() tea.Cmd {
	return tea.Tick(m.every, func(time.Time) tea.Msg { return topDue{} })
}

// Update takes a message.
func (m *topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case topDue:
		if m.due = m.paused; m.paused {
			return m, nil
		}
		return m, m.readCmd
	case topRead:
		m.take(msg)
		return m, m.wait()
	case tea.KeyPressMsg:
		return m, m.key(msg)
	}
	return m, nil
}

// key handles a key.
func (m *topModel) key(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	switch {
	case name == "ctrl+c":
		return tea.Quit
	case m.typing:
		m.filterKey(name, k.Text)
	case name == "q":
		return tea.Quit
	case m.help:
		m.help = false
	case name == "?", name == "h":
		m.help = true
	case name == "space", name == " ":
		m.paused = !m.paused
		if !m.paused && m.due {
			m.due = false
			return m.readCmd
		}
	case m.page != nil:
		m.pageKey(name)
	default:
		m.listKey(name)
	}
	return nil
}

// filterKey edits the filter.
func (m *topModel) filterKey(name, text string) {
	switch {
	case name == "enter":
		m.typing = false
	case name == "esc":
		m.typing, m.filter = false, ""
	case name == "ctrl+u":
		m.filter = ""
	case name == "backspace":
		if r := []rune(m.filter); len(r) > 0 {
			m.filter = string(r[:len(r)-1])
		}
	case len([]rune(m.filter+text)) <= maxFilter:
		m.filter += text
	}
	m.arrange()
}

// pageKey moves on the page of a queue pair, or leaves it.
func (m *topModel) pageKey(name string) {
	switch name {
	case "esc", "left", "backspace", "enter":
		m.page = nil
		m.arrange()
	case "up", "k":
		m.page.first = max(m.page.first-1, 0)
	case "down", "j":
		m.page.first++ // the page knows its end
	}
}

// listKey moves in the rows, chooses their kind, and their order.
func (m *topModel) listKey(name string) {
	switch name {
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-m.listHeight())
	case "pgdown":
		m.move(m.listHeight())
	case "home", "g":
		m.selected = 0
	case "end", "G":
		m.move(len(m.rows))
	case "enter", "right":
		m.open()
	case "tab":
		m.devices, m.within, m.selected = !m.devices, nil, 0
	case "/":
		m.typing = true
	case "esc":
		m.filter, m.within = "", nil
	case "R":
		m.reverse = !m.reverse
	case ">", "s":
		m.sortBy(1)
	case "<":
		m.sortBy(-1)
	default:
		for i := range topSorts {
			if topSorts[i].key == name {
				m.sort, m.reverse = &topSorts[i], false
			}
		}
	}
	m.arrange()
}

// sortBy chooses the next order, or the one before.
func (m *topModel) sortBy(by int) {
	at := slices.IndexFunc(topSorts, func(s topSort) bool { return s.name == m.sort.name })
	m.sort, m.reverse = &topSorts[(at+by+len(topSorts))%len(topSorts)], false
}

// place returns which row is selected.
func (m *topModel) place() int {
	return max(slices.IndexFunc(m.rows, func(r topRow) bool { return r.ID == m.selected }), 0)
}

func (m *topModel) move(by int) {
	if len(m.rows) > 0 {
		m.selected = m.rows[min(max(m.place()+by, 0), len(m.rows)-1)].ID
	}
}

// open goes into the selected row: to a queue pair's history, or to a device's queue pairs.
func (m *topModel) open() {
	if len(m.rows) == 0 {
		return
	}
	r := m.rows[m.place()]
	if r.qp == nil {
		m.devices, m.within, m.selected = false, r.device, 0
		return
	}
	m.selected, m.page = r.ID, &topPage{topRow: r}
}

// arrange makes the rows anew: after a read, and after a key that changes which there are, or their order.
func (m *topModel) arrange() {
	m.rows = m.rowsOf(m.rows[:0], m.devices, m.within)
	words := strings.Fields(strings.ToLower(m.filter))
	m.rows = slices.DeleteFunc(m.rows, func(r topRow) bool { return !r.matches(words) })
	if m.selected != 0 && !slices.ContainsFunc(m.rows, func(r topRow) bool { return r.ID == m.selected }) {
		m.selected = 0
	}
}

// rowsOf appends the rows of devices, or of queue pairs, all or one device's, in the chosen order.
func (m *topModel) rowsOf(rows []topRow, devices bool, within *live.Device) []topRow {
	for _, p := range m.tracker.Processes() {
		for _, d := range p.Devices {
			if devices {
				rows = append(rows, topRow{Activity: &d.Activity, device: d})
				continue
			}
			if within != nil && within != d {
				continue
			}
			for _, q := range d.QPs {
				rows = append(rows, topRow{Activity: &q.Activity, device: d, qp: q})
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b topRow) int { return m.sort.compare(&a, &b, m.reverse) })
	return rows
}
