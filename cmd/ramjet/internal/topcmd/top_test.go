// SPDX-License-Identifier: Apache-2.0

package topcmd

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/core/faults"
	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// topRig is a model with a process whose queue pairs move data as a test says.
type topRig struct {
	*topModel
	now  time.Time
	sent map[verbs.QPN]uint64 // messages of 1000 bytes
	rtts map[verbs.QPN]time.Duration

	injected []faults.Count
}

func newTopRig() *topRig {
	m := newTopModel(nil, time.Second, &topSorts[0])
	return &topRig{topModel: m, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		sent: map[verbs.QPN]uint64{17: 0, 18: 0, 19: 0}, rtts: map[verbs.QPN]time.Duration{}}
}

// found returns the process now.
func (r *topRig) found() []statsocket.Process {
	d := observe.Device{Name: "roce:127.0.0.7", Ports: []observe.Port{{Num: 1, State: verbs.PortActive}},
		Injected: r.injected}
	for n, sent := range r.sent {
		q := driver.QPInfo{SendCQ: 1, RecvCQ: 1}
		q.QPStats = verbs.QPStats{QPN: n, Type: verbs.RC, State: verbs.StateRTS, DestQPN: n + 100, RTT: r.rtts[n]}
		q.DestGID[15] = byte(n)
		q.SentMessages, q.SentBytes = sent, 1000*sent
		d.QPs = append(d.QPs, q)
	}
	return []statsocket.Process{{PID: 4242, Command: "kv", At: r.now,
		State: &observe.Process{Devices: []observe.Device{d}}}}
}

// step has a second pass in which queue pairs send so many messages.
func (r *topRig) step(sent map[verbs.QPN]uint64) {
	r.now = r.now.Add(time.Second)
	for n, k := range sent {
		r.sent[n] += k
	}
	r.Update(topRead{found: r.found(), at: r.now})
}

// press presses keys: characters, or names of keys.
func (r *topRig) press(keys ...string) (last tea.Cmd) {
	named := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "up": tea.KeyUp,
		"down": tea.KeyDown, "home": tea.KeyHome, "end": tea.KeyEnd, "pgdown": tea.KeyPgDown,
		"backspace": tea.KeyBackspace}
	for _, k := range keys {
		if code, ok := named[k]; ok {
			last = r.topModel.key(tea.KeyPressMsg{Code: code})
			continue
		}
		for _, c := range k {
			last = r.topModel.key(tea.KeyPressMsg{Code: c, Text: string(c)})
		}
	}
	return last
}

// screen returns the screen's text, without styles.
func (r *topRig) screen() string { return testrun.Plain(r.View().Content) }

// numbers returns the numbers of the queue pairs on the screen, from above.
func (r *topRig) numbers() string {
	var all []string
	rows := strings.Split(r.screen(), "\n")[topHead:]
	for _, line := range rows[:r.listHeight()] {
		if f := strings.Fields(line); len(f) > 2 && f[0] == "4242" {
			all = append(all, f[slices.IndexFunc(f, func(s string) bool { return strings.HasPrefix(s, "roce:") })+1])
		}
	}
	return strings.Join(all, " ")
}

func (r *topRig) wantScreen(t *testing.T, texts ...string) {
	t.Helper()
	for _, want := range texts {
		if s := r.screen(); !strings.Contains(s, want) {
			t.Errorf("no %q on\n%s", want, s)
		}
	}
}

// Keys and flags choose the order of rows; the chosen row stays the chosen one when others pass it.
func TestTopSort(t *testing.T) {
	r := newTopRig()
	r.step(nil)
	r.rtts[19] = 3 * time.Millisecond
	r.step(map[verbs.QPN]uint64{17: 5, 18: 20_000})
	if got := r.numbers(); got != "18 17 19" {
		t.Errorf("by bytes: %s\n%s", got, r.screen())
	}
	r.wantScreen(t, "1 process, 1 device, 3 queue pairs", "TX 20.0 MB/s 20.0k msg/s", "BYTE/S▼")
	for keys, want := range map[string]string{"t": "19 17 18", "m": "18 17 19", "mR": "19 17 18", "p": "17 18 19",
		"b": "18 17 19", "b>": "18 17 19", "b<": "17 18 19"} {
		r.press(keys)
		if got := r.numbers(); got != want {
			t.Errorf("%s: %s, want %s", keys, got, want)
		}
	}
	r.press("b", "down") // 17
	r.step(map[verbs.QPN]uint64{19: 100, 17: 50})
	if got := r.numbers(); got != "19 17 18" || r.rows[r.place()].qp.Info.QPN != 17 {
		t.Errorf("%s, chosen is row %d", got, r.place())
	}
	r.press("home")
	r.step(map[verbs.QPN]uint64{18: 100})
	if r.rows[r.place()].qp.Info.QPN != 18 {
		t.Error("the first row is not the chosen one after Home")
	}
	r.press("end")
	if r.place() != 2 {
		t.Errorf("End chooses row %d", r.place())
	}
}

// Enter shows a queue pair's history, which stays when the queue pair goes.
func TestTopHistory(t *testing.T) {
	r := newTopRig()
	for i := range 5 {
		r.rtts[18] = 40 * time.Microsecond
		r.step(map[verbs.QPN]uint64{18: uint64(i * 1000)})
	}
	r.press("enter")
	r.wantScreen(t, "queue pair 18 RC RTS  link roce:127.0.0.7/1 pid 4242 comm kv", "RQPN 118", "RTT 40.0µs",
		"last 3 s", "█")
	line := ""
	for l := range strings.Lines(r.screen()) {
		if strings.HasPrefix(l, "TX_MSG") {
			line = strings.TrimRight(l, "\n")
		}
	}
	if f := strings.Fields(line); len(f) != 5 || f[1] != "4000" || f[2] != "4000" || f[3] != "10.0k" || f[4] != "▂▄▆█" {
		t.Errorf("%q", line)
	}
	delete(r.sent, 18)
	r.step(nil)
	r.wantScreen(t, "queue pair 18", "it ended at 03:04:11")
	r.press("esc")
	if got := r.numbers(); got != "17 19 18" {
		t.Errorf("%s", got)
	}
	for range 40 {
		r.step(nil)
	}
	if got := r.numbers(); got != "17 19" {
		t.Errorf("%s", got)
	}
}

func TestTopFilter(t *testing.T) {
	r := newTopRig()
	r.step(nil)
	r.press("/", "q::12") // a peer; q does not quit here
	r.wantScreen(t, `nothing matches "q::12"`, "filter: q::12_")
	r.press("backspace", "backspace", "backspace", "backspace", "backspace", "::12", "enter")
	if got := r.numbers(); got != "18" || r.typing {
		t.Errorf("%s\n%s", got, r.screen())
	}
	r.wantScreen(t, `filter "::12": Esc clears it`)
	r.press("esc")
	if got := r.numbers(); got != "17 18 19" {
		t.Errorf("%s", got)
	}
	r.press("/", strings.Repeat("x", 1000))
	if n := len([]rune(r.filter)); n != maxFilter {
		t.Errorf("a filter of %d characters", n)
	}
}

// Tab shows devices, and Enter on one its queue pairs.
func TestTopDevices(t *testing.T) {
	r := newTopRig()
	r.step(nil)
	r.step(map[verbs.QPN]uint64{17: 2000})
	r.press("tab")
	r.wantScreen(t, "roce:127.0.0.7     ACTIVE     3   2000   2.00M")
	if len(r.rows) != 1 || r.rows[0].qp != nil {
		t.Errorf("%+v", r.rows)
	}
	r.press("enter")
	r.wantScreen(t, "Esc all queue pairs")
	if got := r.numbers(); got != "17 18 19" {
		t.Errorf("%s", got)
	}
	r.press("esc")
	if r.within != nil {
		t.Error("Esc does not go back")
	}
}

// Devices and queue pairs that were struck show the injected faults, and no others do.
func TestTopInjected(t *testing.T) {
	r := newTopRig()
	r.Update(tea.WindowSizeMsg{Width: 120, Height: 24})
	r.step(nil)
	if strings.Contains(r.screen(), "injected") {
		t.Error(r.screen())
	}
	r.injected = []faults.Count{{Kind: "loss", Struck: 17}, {Kind: "late", Struck: 2},
		{QPN: 18, Kind: "late", Struck: 2}}
	r.step(map[verbs.QPN]uint64{18: 1})
	r.wantScreen(t, "1 device with injected faults")
	r.press("enter")
	r.wantScreen(t, "queue pair 18", "injected faults: 2 late")
	r.press("esc", "down", "enter")
	if s := r.screen(); !strings.Contains(s, "queue pair 17") || strings.Contains(s, "injected") {
		t.Error(s)
	}
	r.press("esc", "tab")
	r.wantScreen(t, "injected faults: 17 loss, 2 late")
}

// A pause stops reading, and its end begins it again.
func TestTopPause(t *testing.T) {
	reads := 0
	r := newTopRig()
	r.read = func() ([]statsocket.Process, error) { reads++; return r.found(), nil }
	r.press(" ")
	r.wantScreen(t, "PAUSED")
	if _, c := r.Update(topDue{}); c != nil {
		t.Error("it reads while it is paused")
	}
	c := r.press(" ")
	if c == nil {
		t.Fatal("it does not read again")
	}
	msg := c()
	if _, ok := msg.(topRead); !ok || reads != 1 {
		t.Errorf("%T, %d reads", msg, reads)
	}
	if _, c := r.Update(msg); c == nil {
		t.Error("after a read it does not wait for the next")
	}
	r.press(" ", " ") // the wait goes on: no second one begins
	if _, c := r.Update(topDue{}); c == nil {
		t.Error("it does not read any more")
	}
}

func TestTopNothing(t *testing.T) {
	r := newTopRig()
	r.Update(topRead{at: r.now})
	r.wantScreen(t, "has a Ramjet device open here: watching for one", "0 processes")
	r.press("enter", "down", "tab", "enter") // on nothing
	r.pids = 1
	r.Update(topRead{at: r.now, err: cli.NoProcessError{PID: 5}})
	r.wantScreen(t, "the process has ended")
	r.Update(topRead{at: r.now, err: errors.New("no table of sockets")})
	r.wantScreen(t, "no table of sockets")
	r.Update(topRead{at: r.now, found: []statsocket.Process{{PID: 5, Command: "kv", Err: errors.New("it is stopped")}}})
	r.wantScreen(t, "pid 5 comm kv cannot be read: it is stopped")
}

// With each size of the screen no line is too long, and there are not too many.
func TestTopSizes(t *testing.T) {
	r := newTopRig()
	for n := range verbs.QPN(100) {
		r.sent[n+1000] = 0
	}
	for range 30 {
		r.step(map[verbs.QPN]uint64{17: 1_000_000, 18: 5, 1005: 7})
	}
	for _, keys := range [][]string{nil, {"end"}, {"tab"}, {"tab", "home", "enter"}, {"?"}} {
		r.press(keys...)
		for width := 1; width < 220; width += 3 {
			for _, height := range []int{1, 2, 4, 5, 20, 24, 40, 200} {
				r.Update(tea.WindowSizeMsg{Width: width, Height: height})
				lines := strings.Split(r.screen(), "\n")
				if len(lines) > height {
					t.Fatalf("%v: %d lines of %d", keys, len(lines), height)
				}
				for _, l := range lines {
					if n := text.StringWidthWithoutEscSequences(l); n > width {
						t.Fatalf("%v: %d columns of %d: %q", keys, n, width, l)
					}
				}
			}
		}
	}
	r.press("esc", "esc", "end")
	r.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	last := r.rows[len(r.rows)-1].qp.Info.QPN
	r.wantScreen(t, fmt.Sprintf(" %d RTS", last))
}

// The room that the rows leave shows the chosen row's history and the devices; a large screen is full, and a long
// list leaves a third of it. A standard screen is for rows.
func TestTopBelow(t *testing.T) {
	r := newTopRig()
	for i := range 60 {
		r.step(map[verbs.QPN]uint64{17: uint64(100 + i), 18: uint64(10 + i%7)})
	}
	r.Update(tea.WindowSizeMsg{Width: 200, Height: 50})
	r.wantScreen(t, "queue pair 17 RC RTS  link roce:127.0.0.7/1 pid 4242 comm kv", "TX_BYTE", "TX_MSG", "last 58 s",
		"  BYTE/S  ", "devices\n")
	blank := 0
	for _, l := range strings.Split(r.screen(), "\n") {
		if strings.TrimSpace(l) == "" {
			blank++
		}
	}
	if blank > 8 {
		t.Errorf("%d lines of 50 are empty\n%s", blank, r.screen())
	}
	r.press("down")
	r.wantScreen(t, "queue pair 18 RC RTS")
	r.press("tab")
	r.wantScreen(t, "queue pairs of roce:127.0.0.7\n", "device roce:127.0.0.7  pid 4242 comm kv", "STATE ACTIVE  QP 3",
		"TX_BYTE")
	r.press("tab")
	r.Update(tea.WindowSizeMsg{Width: 40, Height: 24})
	r.wantScreen(t, "queue pair 17", "TX_BYTE", "TX 172 kB/s  RX 0 B/s  RETR 0/s  RNR 0/s\n")
	if strings.Contains(r.screen(), "TX_CNP") {
		t.Errorf("a series that was always zero\n%s", r.screen())
	}
	for n := range verbs.QPN(100) {
		r.sent[n+1000] = 0
	}
	r.step(nil)
	if r.listHeight() != 20 || strings.Contains(r.screen(), "TX_BYTE") {
		t.Errorf("%d lines of rows on a standard screen", r.listHeight())
	}
	r.Update(tea.WindowSizeMsg{Width: 80, Height: 50})
	if n := r.listHeight(); n < 28 || n > 32 {
		t.Errorf("%d lines of rows of 50", n)
	}
	r.wantScreen(t, "TX_BYTE", "devices\n")
	r.press("end")
	r.wantScreen(t, fmt.Sprint(" ", r.rows[len(r.rows)-1].qp.Info.QPN, " RTS"))
}

func TestTopQuit(t *testing.T) {
	for _, keys := range [][]string{{"q"}, {"enter", "q"}, {"?", "q"}} {
		r := newTopRig()
		r.step(nil)
		c := r.press(keys...)
		if c == nil {
			t.Fatalf("%v does not quit", keys)
		}
		if _, ok := c().(tea.QuitMsg); !ok {
			t.Errorf("%v does not quit", keys)
		}
	}
	r := newTopRig()
	if c := r.topModel.key(tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}); c == nil {
		t.Error("Ctrl-C does not quit")
	}
}

func TestGraph(t *testing.T) {
	for _, c := range []struct {
		values []float64
		width  int
		want   string
	}{{[]float64{0, 1, 2, 4, 8}, 7, "   ▁▂▄█"}, {[]float64{8, 8, 1}, 2, "█▁"}, {nil, 3, "   "},
		{[]float64{1e-9, 8}, 2, "▁█"}, {[]float64{1}, 0, ""}} {
		if got := blockLevels.line(c.values, c.width, 8); got != c.want {
			t.Errorf("%v: %q, want %q", c.values, got, c.want)
		}
	}
	if got := blockLevels.lines([]float64{1, 2, 3, 4}, 4, 2, 4); got[0] != "  ▄█" || got[1] != "▄███" {
		t.Errorf("%q", got)
	}
	if got := asciiLevels.line([]float64{1, 8}, 2, 8); got != "_@" {
		t.Errorf("%q", got)
	}
}

// Where the locale has no UTF-8, nothing on any screen is anything but ASCII.
func TestTopASCII(t *testing.T) {
	r := newTopRig()
	r.levels, r.width, r.height = asciiLevels, 40, 24
	r.rtts[17] = 42 * time.Microsecond
	for range 3 {
		r.step(map[verbs.QPN]uint64{17: 100})
	}
	for _, keys := range [][]string{{}, {"enter"}, {"esc"}, {"?"}, {"q", "tab"}} {
		r.press(keys...)
		s := r.screen()
		if i := strings.IndexFunc(s, func(c rune) bool { return c > '~' }); i >= 0 {
			t.Errorf("after %v: %q on\n%s", keys, s[i:i+3], s)
		}
	}
	r.wantScreen(t, "BYTE/S*")
	r.levels = blockLevels
	r.wantScreen(t, "▼")
}
