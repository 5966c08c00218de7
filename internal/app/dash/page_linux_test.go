// SPDX-License-Identifier: Apache-2.0

package dash

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/internal/core/faults"
	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// serveAt serves a world at an address until end is called.
func serveAt(t *testing.T, w *world, addr, key string) (s *Server, url string, end func()) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	// A port that was free for a moment may be at the browser's end of a connection, or of another program's.
	for until := time.Now().Add(browserTime); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(until); {
		time.Sleep(10 * time.Millisecond)
		l, err = net.Listen("tcp", addr)
	}
	if err != nil {
		t.Fatal(err)
	}
	s = New(l.Addr(), Options{Version: "v1"})
	s.source, s.ladders = newSource(w.read), newLadders(w.watch)
	if key != "" {
		s.key = key
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Serve(ctx, l)
	}()
	end = func() {
		cancel()
		<-ended
	}
	t.Cleanup(end)
	return s, "http://" + l.Addr().String() + "/#" + s.Key(), end
}

func (w *world) set(f func()) {
	w.lock.Lock()
	defer w.lock.Unlock()
	f()
}

// The page in a browser: its contents, the keyboard, and objects that go away while they are looked at.
func TestPage(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	w := &world{packets: &observe.Packets{Wire: observe.RoCEv2}}
	_, url, _ := serveAt(t, w, "127.0.0.1:0", "")
	b.open(url, 1280, 800, "light")

	// Nothing is there.
	b.await("document.querySelector('#empty').checkVisibility() && document.querySelector('#live').className === 'on'")
	b.picture("empty")

	// A process comes.
	first := processOf(5, 3)
	first.Command = "<img src=x onerror=alert(1)>" // texts of processes are texts
	failed := &first.State.Devices[0].QPs[2]
	failed.State, failed.Failed = verbs.StateError, "RETRY_EXC_ERR: the peer does not answer"
	w.set(func() { w.list = []statsocket.Process{first} })
	b.await("document.querySelectorAll('#list .open').length === 3 && !document.querySelector('#empty').checkVisibility()")
	b.await("/[1-9]\\d* (k|M)B.s/.test(document.querySelector('#tiles').innerText)")
	b.await("document.querySelector('#graphs svg path.line')")
	if n := b.eval("document.querySelectorAll('#list img').length"); n != 0.0 {
		t.Error("the name of a process is markup")
	}

	// The keyboard: to the rows, between them, into one and back.
	b.eval("document.querySelector('#list .name').focus()")
	b.press("Tab")
	if b.eval("document.activeElement.className") != "why" {
		t.Error("the error of the device does not follow its name")
	}
	b.press("Tab")
	focus := "document.activeElement.innerText"
	for _, c := range []struct{ key, want string }{{"", "100"}, {"ArrowDown", "101"}, {"ArrowDown", "102"},
		{"ArrowDown", "102"}, {"Home", "100"}, {"End", "102"}} {
		if c.key != "" {
			b.press(c.key)
		}
		if got := b.eval(focus); got != c.want {
			t.Errorf("after %q row %v has the focus, want %s", c.key, got, c.want)
		}
	}
	if outline := b.eval("getComputedStyle(document.activeElement).outlineStyle"); outline == "none" {
		t.Error("the focus is not to be seen")
	}
	b.press("Enter")
	b.await("document.querySelector('#detail').open")
	b.await("document.querySelector('#detail-failed').innerText.includes('does not answer')")
	b.press("Escape")
	b.await("!document.querySelector('#detail').open")
	if got := b.eval(focus); got != "102" {
		t.Errorf("%v has the focus after closing", got)
	}
	b.press("Home")
	b.press("Enter")

	// The ladder comes when there are packets.
	b.await("document.querySelector('#ladder-note').innerText.includes('No packet yet')")
	w.set(func() { w.packets = packets() })
	rows := "document.querySelector('#ladder').shadowRoot.querySelectorAll('.row')"
	b.await(rows + ".length === 2")
	if text := fmt.Sprint(b.eval("document.querySelector('#ladder').shadowRoot.querySelector('svg').textContent")); !strings.Contains(text, "0.0.0.7") || !strings.Contains(text, "PSN 77") {
		t.Error(text)
	}
	if fill := b.eval("getComputedStyle(document.querySelector('#ladder').shadowRoot.querySelector('.tip')).fill"); fill != "rgb(61, 90, 128)" {
		t.Errorf("the ladder has no styles: %v", fill)
	}
	b.picture("ladder")
	b.size(420, 900, "light")
	b.await("(l => l.scrollWidth <= l.clientWidth)(document.querySelector('#ladder'))") // drawn again, to fit
	b.picture("phone-ladder")
	b.size(1280, 800, "light")

	// The process ends while it is looked at.
	w.set(func() { w.refused = errors.New("the process has ended") })
	b.await("document.querySelector('#ladder-note').innerText.includes('These are the last packets that were seen: the process has ended')")
	w.set(func() { w.list = nil })
	b.await("document.querySelector('#detail-gone').checkVisibility()")
	if n := b.eval(rows + ".length"); n != 2.0 {
		t.Errorf("%v rows are left of the ladder", n)
	}
	b.press("Escape")
	b.await("!document.querySelector('#detail').open")
	b.await("document.querySelector('#list').innerText.includes('The process has ended.')")
	if faults := b.faults(); faults != "" {
		t.Error(faults)
	}
}

// A hidden page does not ask, and one whose server ends finds it again.
func TestPageComesBack(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	w := &world{packets: packets()}
	s, url, end := serveAt(t, w, "127.0.0.1:0", "")
	b.open(url, 1280, 800, "light")
	b.await("document.querySelector('#empty').checkVisibility() && document.querySelector('#live').className === 'on'")

	// A hidden page does not ask.
	b.eval("Object.defineProperty(document, 'hidden', {value: true, configurable: true}); document.dispatchEvent(new Event('visibilitychange'))")
	b.await("document.querySelector('#live-text').innerText === 'Hidden'")
	w.lock.Lock()
	before := w.reads
	w.lock.Unlock()
	time.Sleep(2500 * time.Millisecond)
	w.lock.Lock()
	if w.reads > before+1 { // one may have been on its way
		t.Errorf("%d reads while the tab was hidden", w.reads-before)
	}
	w.list = []statsocket.Process{processOf(6, 1)}
	w.lock.Unlock()
	b.eval("Object.defineProperty(document, 'hidden', {value: false, configurable: true}); document.dispatchEvent(new Event('visibilitychange'))")
	b.await("document.querySelector('#live-text').innerText === 'Live' && document.querySelector('#list').innerText.includes('roce:192.0.2.6')")
	if faults := b.faults(); faults != "" {
		t.Error(faults)
	}

	// The server ends, and comes back.
	end()
	b.await("document.querySelector('#alert').checkVisibility() && document.querySelector('#alert').innerText.includes('is lost')")
	_, _, _ = serveAt(t, w, strings.TrimPrefix(strings.Split(url, "/#")[0], "http://"), s.Key())
	b.await("!document.querySelector('#alert').checkVisibility() && document.querySelector('#live-text').innerText === 'Live'")
}

// Graphs have the scale of their values, and mark times without a watcher: an outage looks different.
func TestPageGraphs(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	_, url, _ := serveAt(t, &world{}, "127.0.0.1:0", "")
	b.open(url, 1400, 900, "light")
	b.await("document.querySelector('#live').className === 'on'")
	b.eval("document.querySelector('#pause').click()")
	b.await("document.querySelector('#live').className === 'held' && !asking")
	show := func(ago, over, sent string) {
		b.eval(fmt.Sprintf("mainGraphs[0].show({ago_ms: %s, over_ms: %s, sent_bytes: %s, received_bytes: %s.map(() => 0)})", ago, over, sent, sent))
	}
	const graph = "document.querySelector('#graphs svg')"
	show("[150000, 3000, 2000, 1000, 0]", "[1000, 1000, 1000, 1000, 1000]", "[1e9, 80, 0, 0, 90]")
	if text := fmt.Sprint(b.eval(graph + ".textContent")); !strings.Contains(text, "100 B/s") ||
		strings.Contains(text, "GB") || strings.Contains(text, "watched") {
		t.Error(text)
	}
	if label := fmt.Sprint(b.eval(graph + ".getAttribute('aria-label')")); !strings.Contains(label, "Highest: 90 B/s") {
		t.Error(label)
	}
	if n := b.eval(graph + ".querySelectorAll('path.line.sent').length"); n != 1.0 {
		t.Errorf("an outage is drawn as %v lines", n)
	}
	show("[62000, 61000, 1000, 0]", "[1000, 1000, 60000, 1000]", "[80, 80, 40, 80]")
	if text := fmt.Sprint(b.eval(graph + ".textContent")); !strings.Contains(text, "not watched") {
		t.Error(text)
	}
	if n := b.eval(graph + ".querySelectorAll('.unwatched').length + 10 * " + graph +
		".querySelectorAll('line.mean.sent').length"); n != 11.0 {
		t.Errorf("grounds and means: %v", n)
	}
	b.picture("graphs")
	if faults := b.faults(); faults != "" {
		t.Error(faults)
	}
}

// Texts about peers and packets fit the facts: no number 0, and not that no packet came above packets.
func TestPageWords(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	p := processOf(5, 1)
	p.State.Devices[0].QPs[0].DestQPN = 0
	p.State.Devices[0].Injected = []faults.Count{{Kind: "loss", Struck: 3}, {QPN: 100, Kind: "loss", Struck: 3}}
	refused := processOf(6, 0) // a fault has kept its program from a queue pair
	refused.State.Devices[0].Injected = []faults.Count{{Kind: "fail", Struck: 1}}
	w := &world{list: []statsocket.Process{p, refused}, packets: packets()}
	_, url, _ := serveAt(t, w, "127.0.0.1:0", "")
	b.open(url, 1400, 900, "light")
	b.await("document.querySelector('#list .open')")
	if notes := fmt.Sprint(b.eval("document.querySelector('#list').innerText")); !strings.Contains(notes,
		"No queue pairs. Injected faults: 1 fail") {
		t.Errorf("the device without queue pairs: %s", notes)
	}
	if peer := b.eval("document.querySelector('#list td.peer').innerText"); peer != "198.0.0.7" {
		t.Errorf("the peer is %q", peer)
	}
	if note := b.eval("document.querySelector('#list .note').innerText"); note != "Injected faults: 3 loss" {
		t.Errorf("the device has the note %q", note)
	}
	b.eval("document.querySelector('#list .open').click()")
	b.await("document.querySelector('#ladder').shadowRoot.querySelector('svg')")
	if causes := fmt.Sprint(b.eval("document.querySelector('#causes').innerText")); !strings.Contains(causes,
		"3 loss") {
		t.Error(causes)
	}
	if facts := fmt.Sprint(b.eval("document.querySelector('#facts').innerText")); !strings.Contains(facts,
		"198.0.0.7") || strings.Contains(facts, "QP 0") {
		t.Error(facts)
	}
	w.set(func() { w.packets = &observe.Packets{Wire: observe.RoCEv2} }) // it is watched again, after a pause
	b.await("document.querySelector('#ladder-note').innerText.includes('last packets that were seen before')")
	if n := b.eval("document.querySelector('#ladder').shadowRoot.querySelectorAll('.row').length"); n != 2.0 {
		t.Errorf("%v rows", n)
	}
	if faults := b.faults(); faults != "" {
		t.Error(faults)
	}
}

// The page writes numbers as the other commands do.
func TestPageNumbers(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	_, url, _ := serveAt(t, &world{}, "127.0.0.1:0", "")
	b.open(url, 1280, 800, "light")
	values := []float64{0, 0.001, 0.004, 0.005, 0.25, 0.999, 1, 1.5, 9.994, 9.996, 12.34, 99.94, 99.96, 100.4, 999,
		1000, 1024, 9994, 9996, 9999, 9999.4, 9999.6, 10_000,
		12_345, 99_949, 99_951, 999_499, 999_501, 1e6, 999_600_000, 1e9, 1.2e9, 59.94e9, 59.96e9, 125.4e9, 1234e9,
		3599e9, 3599.6e9, 7500e9, 1e15, 18.4e18, -1, -0.001, -12_345, -2e9}
	for _, v := range values {
		for f, want := range map[string]string{"count": units.Short(v), "bytes": units.Bytes(v), "rate": units.Rate(v),
			"perSecond": units.PerSecond(v), "time": units.Seconds(v / 1e9)} {
			if f == "time" && math.Abs(v) >= 1e15 {
				continue
			}
			if got := b.eval(fmt.Sprintf("format.%s(%v)", f, v)); got != want {
				t.Errorf("%s of %v is %q in the page, and %q elsewhere", f, v, got, want)
			}
		}
	}
	for f, want := range map[string]string{"count": units.Short(math.NaN()), "rate": units.Rate(math.NaN()),
		"perSecond": units.PerSecond(math.NaN()), "time": units.Seconds(math.NaN())} {
		for _, v := range []string{"NaN", "Infinity", "-Infinity"} {
			if got := b.eval(fmt.Sprintf("format.%s(%s)", f, v)); got != want {
				t.Errorf("%s of %s is %q in the page, and %q elsewhere", f, v, got, want)
			}
		}
	}
	if got, want := b.eval("format.exact(1234567)"), units.Count(1234567); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if faults := b.faults(); faults != "" {
		t.Error(faults)
	}
}

// The page needs the key, and says so.
func TestPageWithoutKey(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	_, url, _ := serveAt(t, &world{list: []statsocket.Process{processOf(5, 3)}}, "127.0.0.1:0", "")
	b.open(strings.Split(url, "#")[0], 800, 600, "light")
	b.await("document.querySelector('#alert').innerText.includes('open the URL')")
	if n := b.eval("document.querySelectorAll('#list .open').length"); n != 0.0 {
		t.Errorf("%v rows", n)
	}
}

// Nothing is cut off at the sides, on narrow screens and on wide ones, with long texts.
func TestPageWidths(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	p := processOf(5, 3)
	p.Command = "a-program-with-a-long-name"
	p.State.Devices[0].Name = "roce:fe80::1234:5678:9abc:def0%enp129s0f0np0"
	for i := range p.State.Devices[0].QPs {
		q := &p.State.Devices[0].QPs[i]
		q.DestGID = verbs.GID{0x20, 1, 0xd, 0xb8, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0, 0x12, 0x34, 0x56,
			0x78}
		q.DestQPN, q.SentBytes, q.Retransmitted = 1<<24-2, 1<<60, 123456789
	}
	_, url, _ := serveAt(t, &world{list: []statsocket.Process{p}, packets: packets()}, "127.0.0.1:0", "")
	widths := []int{320, 420, 1341, 1600}
	if testrun.Long() {
		widths = []int{320, 360, 420, 640, 900, 1180, 1340, 1341, 1400, 1600, 2560}
	}
	for _, width := range widths {
		scheme := "light"
		if width%3 == 0 {
			scheme = "dark"
		}
		b.open(url, width, 800, scheme)
		b.await("document.querySelectorAll('#list .open').length === 3 && document.querySelector('#graphs svg text')")
		fits := "document.documentElement.scrollWidth <= innerWidth"
		if b.eval(fits) != true {
			t.Errorf("%d pixels: the page is %v wide", width, b.eval("document.documentElement.scrollWidth"))
		}
		b.picture(fmt.Sprintf("width-%d", width))
		b.eval("document.querySelector('#list .open').click()")
		b.await("document.querySelector('#ladder').shadowRoot.querySelector('svg')")
		if b.eval("document.querySelector('#detail').scrollWidth <= document.querySelector('#detail').clientWidth") != true {
			t.Errorf("%d pixels: the details are %v wide", width,
				b.eval("document.querySelector('#detail').scrollWidth"))
		}
		if cut := b.eval("[...document.querySelectorAll('#list th, #list td, #facts dd, #tiles dd, .group-head > *')].filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.innerText).join('; ')"); cut != "" {
			t.Errorf("%d pixels: cut off: %v", width, cut)
		}
		b.picture(fmt.Sprintf("width-%d-detail", width))
	}
}

// crowd is a process with twenty queue pairs, of which one has failed, and a process that it is connected to.
func crowd() []statsocket.Process {
	a, b := processOf(5, 20), processOf(7, 1)
	d := &a.State.Devices[0]
	d.Ports[0].SpeedMbps = 100_000
	for i := range d.QPs {
		q := &d.QPs[i]
		q.DestQPN = verbs.QPN(100 + i%3)
		q.DestGID[15] = byte(7 + i%4)
		q.Retransmitted, q.LateAcks = uint64(i%5*7), uint64(i%2*11)
	}
	d.QPs[4].State, d.QPs[4].Failed = verbs.StateError, "RETRY_EXC_ERR: the peer does not answer"
	b.State.Devices[0].Name = "roce:198.0.0.7"
	b.State.Devices[0].QPs[0].DestGID[12], b.State.Devices[0].QPs[0].DestGID[15] = 192, 5
	return []statsocket.Process{a, b}
}

// Twenty queue pairs fit a screen; the table sorts by its heads; graphs give the values of each time; errors are
// explained; the map has the processes and their connections.
func TestPageTable(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	_, url, _ := serveAt(t, &world{list: crowd(), packets: packets()}, "127.0.0.1:0", "")
	b.open(url, 1400, 900, "light")
	b.await("document.querySelectorAll('#list .open').length === 21 && document.querySelectorAll('#graphs .line').length > 1")
	b.picture("table")
	if low := b.eval("[...document.querySelectorAll('#list .open')][19].getBoundingClientRect().bottom"); low.(float64) > 900 {
		t.Errorf("the twentieth row is at %v", low)
	}
	first := "document.querySelector('#list tr:not(.group) .open').innerText"
	head := func(name string) string {
		return "[...document.querySelectorAll('#heads button')].find(b => b.innerText === '" + name + "')"
	}
	b.eval(head("QP") + ".focus()")
	b.press("Enter")
	if got := b.eval(first + "+ document.querySelector('[aria-sort]').ariaSort"); got != "119descending" {
		t.Errorf("by number, the largest first: %v", got)
	}
	b.eval(head("State") + ".click()")
	if got := b.eval(first); got != "104" {
		t.Errorf("by state: %v", got)
	}
	b.eval("document.querySelector('#filter').value = '104'; document.querySelector('#filter').dispatchEvent(new Event('input'))")
	b.await("document.querySelectorAll('#list .open').length === 1")
	b.eval("document.querySelector('#list .open').click()")
	b.await("document.querySelector('#means').innerText.includes('What it means')")
	b.eval("document.querySelector('#means details').open = true")
	b.picture("error")
	b.press("Escape")
	b.await("!document.querySelector('#detail').open") // then the focus goes back to the row
	b.eval("document.querySelector('#filter').value = ''; document.querySelector('#filter').dispatchEvent(new Event('input'))")

	b.eval("document.querySelector('#graphs svg').focus()")
	b.press("End")
	b.await("/\\d\\d:\\d\\d:\\d\\d, .* ago: sent/.test(document.querySelector('#graphs .tip').innerText)")
	b.picture("tip")
	b.eval("document.querySelector('#span').value = '3600'; document.querySelector('#span').dispatchEvent(new Event('change'))")
	b.await("document.querySelector('#graphs svg').textContent.includes('−1 h') && mainGraphs[0].series.every_ms === 30000")
	b.eval("document.querySelector('#span').value = '30'; document.querySelector('#span').dispatchEvent(new Event('change'))")
	b.await("document.querySelector('#graphs svg').textContent.includes('−30 s')")

	b.eval("document.querySelector('#map-of').open = true")
	b.await("document.querySelectorAll('#map .map-device').length === 2 && document.querySelectorAll('#map .map-line').length >= 4")
	b.eval("document.querySelector('#map-of').scrollIntoView()")
	b.picture("map")
	b.size(420, 900, "dark")
	b.eval("scrollTo(0, 0)")
	time.Sleep(1500 * time.Millisecond)
	b.picture("phone")
	b.eval("document.querySelector('#devices').scrollIntoView()")
	b.picture("phone-rows")
	b.eval("document.querySelector('#map-of').scrollIntoView()")
	b.picture("phone-map")
	if faults := b.faults(); faults != "" {
		t.Error(faults)
	}
}
