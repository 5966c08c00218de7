// SPDX-License-Identifier: Apache-2.0

package dash

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/ladder"
	"github.com/ramjet-rdma/ramjet/internal/core/faults"
	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// world is the state that a server reads in tests.
type world struct {
	lock    sync.Mutex
	reads   int
	list    []statsocket.Process
	err     error
	packets *observe.Packets
	refused error
	open    int // watchers
}

func (w *world) read(context.Context, int) ([]statsocket.Process, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.reads++
	for i := range w.list { // it goes on
		w.list[i].At = time.Now()
		if w.list[i].State == nil {
			continue
		}
		for _, d := range w.list[i].State.Devices {
			for j := range d.QPs {
				d.QPs[j].SentMessages += 100
				d.QPs[j].SentBytes += 100 << 10
				d.QPs[j].Timeouts++
			}
		}
	}
	return clone(w.list), w.err
}

// clone returns a copy, as a process sends one: it does not change.
func clone(list []statsocket.Process) []statsocket.Process {
	out := slices.Clone(list)
	for i := range out {
		if st := out[i].State; st != nil {
			b, _ := json.Marshal(st)
			out[i].State = &observe.Process{}
			json.Unmarshal(b, out[i].State)
		}
	}
	return out
}

func (w *world) watch(context.Context, qpKey) (watcher, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.open++
	return &fakeWatcher{w}, nil
}

type fakeWatcher struct{ w *world }

func (f *fakeWatcher) Last(context.Context, int) (*observe.Packets, error) {
	f.w.lock.Lock()
	defer f.w.lock.Unlock()
	return f.w.packets, f.w.refused
}

func (f *fakeWatcher) Close() error {
	f.w.lock.Lock()
	defer f.w.lock.Unlock()
	f.w.open--
	return nil
}

func (w *world) watchers() int {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.open
}

// processOf returns a process with a device and so many queue pairs.
func processOf(pid, qps int) statsocket.Process {
	d := observe.Device{Name: fmt.Sprintf("roce:192.0.2.%d", pid), Kind: "roce",
		Ports: []observe.Port{{Num: 1, State: verbs.PortActive, NetDev: "eth0", ActiveMTU: 4096}}}
	for n := range qps {
		q := driver.QPInfo{PD: 1, SendCQ: 1, RecvCQ: 1}
		q.QPStats = verbs.QPStats{QPN: verbs.QPN(100 + n), Type: verbs.RC, State: verbs.StateRTS,
			RTT: 40 * time.Microsecond, Window: 1 << 20, DestQPN: 7}
		q.DestGID[10], q.DestGID[11], q.DestGID[12], q.DestGID[15] = 255, 255, 198, 7
		d.QPs = append(d.QPs, q)
	}
	return statsocket.Process{PID: pid, Instance: uint64(pid), Command: "kv",
		State: &observe.Process{PID: pid, Devices: []observe.Device{d}}}
}

func newServer(w *world) *Server {
	s := New(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7471}, Options{Version: "v1"})
	s.source, s.ladders = newSource(w.read), newLadders(w.watch)
	return s
}

// get asks a server. The key is given unless the header says otherwise.
func get(s *Server, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:7471"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+s.Key())
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func stateOf(t *testing.T, s *Server, query string) *State {
	t.Helper()
	w := get(s, "GET", "/api/state"+query, "")
	var st State
	if err := json.Unmarshal(w.Body.Bytes(), &st); err != nil || w.Code != 200 {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return &st
}

// All files together are small, and name nothing elsewhere.
func TestPageSize(t *testing.T) {
	outside := regexp.MustCompile(`(?i:https?://[^"' )]*|@import|\bstyle=|\bon[a-z]+=")|\burl\([^)]*\)`)
	size, seen := 0, 0
	err := fs.WalkDir(page, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := page.ReadFile(path)
		size += len(b)
		seen++
		for _, m := range outside.FindAllString(string(b), -1) {
			if m != "http://www.w3.org/2000/svg" { // a name, which is never opened
				t.Errorf("%s: %s", path, m)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if size > 500_000 || seen != len(files) {
		t.Errorf("%d files have %d bytes, %d are served", seen, size, len(files))
	}
	t.Logf("%d bytes", size)
	s := newServer(&world{})
	for path, f := range files {
		w := get(s, "GET", path, "", "Authorization", "")
		if w.Code != 200 || w.Header().Get("Content-Type") != f[1] || w.Body.Len() == 0 {
			t.Errorf("%s: %d, %v", path, w.Code, w.Header())
		}
	}
}

// A request without the key, to another host name, or with another method, gets nothing and changes nothing.
func TestRefused(t *testing.T) {
	w := &world{list: []statsocket.Process{processOf(5, 1)}}
	s := newServer(w)
	qp := stateOf(t, s, "").Processes[0].Devices[0].QPs[0].ID
	body := fmt.Sprintf(`{"id":%d}`, qp)
	for _, c := range []struct {
		method, path string
		header       []string
		want         int
	}{
		{"GET", "/api/state", []string{"Authorization", ""}, 401},
		{"GET", "/api/state", []string{"Authorization", "Bearer " + strings.Repeat("0", 32)}, 401},
		{"POST", "/api/ladder", []string{"Authorization", ""}, 401},
		{"GET", "/api/ladder", nil, 405},
		{"POST", "/api/state", nil, 405},
		{"POST", "/", nil, 405},
		{"DELETE", "/dash.js", nil, 405},
		{"GET", "/page/index.html", nil, 404},
		{"GET", "/../server.go", nil, 404},
		{"GET", "/", []string{"Host", "evil.example"}, 421},
		{"GET", "/api/state", []string{"Host", "evil.example:7471"}, 421},
		{"GET", "/api/state", []string{"Host", "127.0.0.1.evil.example"}, 421},
		{"GET", "/api/state", []string{"Host", "192.0.2.1:7471"}, 421},
		{"GET", "/api/state", []string{"Host", ""}, 421},
		{"GET", "/api/state", []string{"Host", "localhost:7471"}, 200},
		{"GET", "/api/state", []string{"Host", "[::1]:7471"}, 200},
	} {
		r := get(s, c.method, c.path, body, c.header...)
		if r.Code != c.want {
			t.Errorf("%s %s %v: %d %s, want %d", c.method, c.path, c.header, r.Code, r.Body, c.want)
		}
		if r.Header().Get("Content-Security-Policy") != policy ||
			r.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s: %v", c.method, c.path, r.Header())
		}
	}
	if n := w.watchers(); n != 0 {
		t.Errorf("%d queue pairs are watched", n)
	}
	for _, b := range []string{"", "{", `{"id":"x"}`, `{"id":-1}`, strings.Repeat(" ", maxBody+1) + body} {
		if r := get(s, "POST", "/api/ladder", b); r.Code != 400 {
			t.Errorf("%.20q: %d %s", b, r.Code, r.Body)
		}
	}
	if r := get(s, "POST", "/api/ladder", `{"id":1000000}`); r.Code != 404 {
		t.Errorf("%d %s", r.Code, r.Body)
	}
	if r := get(s, "GET", "/api/state?filter="+strings.Repeat("x", maxBody+1), ""); r.Code != 400 {
		t.Errorf("%d %s", r.Code, r.Body)
	}
}

// Beyond loopback the server is asked for by its addresses, and by the name that it was given.
func TestNames(t *testing.T) {
	s := New(&net.TCPAddr{IP: net.IPv4zero, Port: 80}, Options{Name: "host.example"})
	for host, want := range map[string]bool{"192.0.2.1": true, "[2001:db8::1]:80": true, "Host.Example:80": true,
		"localhost": true, "other.example": false, "": false} {
		if s.isOwn(host) != want {
			t.Errorf("%q: %v", host, !want)
		}
	}
}

// However many clients ask, processes are read about once a second, and their counters have rates.
func TestState(t *testing.T) {
	faulty := processOf(5, 2)
	faulty.State.Devices[0].Injected = []faults.Count{{Kind: "loss", Struck: 3}, {QPN: 100, Kind: "loss", Struck: 3}}
	w := &world{list: []statsocket.Process{faulty,
		{PID: 6, Instance: 6, Command: "stuck", Err: errors.New("it is stopped")}}}
	s := newServer(w)
	start := time.Now()
	for range 20 {
		stateOf(t, s, "")
	}
	s.source.lock.Lock()
	s.source.at = s.source.at.Add(-time.Second)
	s.source.lock.Unlock()
	time.Sleep(time.Millisecond) // rates are of some time
	st := stateOf(t, s, "")
	if took := time.Since(start); w.reads > 2+int(took/time.Second) { // the first, one each second, and the last
		t.Errorf("%d reads in %v", w.reads, took)
	}
	d := st.Processes[0].Devices[0]
	if q := d.QPs[0]; st.Version != "v1" || st.Objects.QPs != 2 || q.Rates.SentMessages <= 0 || q.Peer != "198.0.0.7" ||
		q.State != "RTS" || q.RTTNS != 40_000 {
		t.Errorf("%+v", st)
	}
	if d.Injected != "3 loss" || d.QPs[0].Injected != "3 loss" || d.QPs[1].Injected != "" {
		t.Errorf("injected faults are %q, of queue pairs %q and %q", d.Injected, d.QPs[0].Injected, d.QPs[1].Injected)
	}
	if st.Processes[1].Error != "it is stopped" || st.Scope.Kind != "all" || len(st.Scope.Series.SentBytes) == 0 ||
		st.Scope.Counts.Timeouts == 0 {
		t.Errorf("%+v", st)
	}
	if sc := stateOf(t, s, fmt.Sprintf("?scope=%d", d.QPs[1].ID)).Scope; sc.Kind != "qp" || sc.QP == nil ||
		sc.QP.QPN != 101 || len(sc.Series.AgoMS) == 0 {
		t.Errorf("%+v", sc)
	}
	if sc := stateOf(t, s, fmt.Sprintf("?scope=%d", d.ID)).Scope; sc.Kind != "device" || sc.Label != d.Name {
		t.Errorf("%+v", sc)
	}
	if st := stateOf(t, s, "?filter=QP+101"); len(st.Processes[0].Devices[0].QPs) != 1 || st.Objects.QPs != 2 {
		t.Errorf("%+v", st)
	}
	w.err = errors.New("no table")
	s.source.at = time.Time{}
	if r := get(s, "GET", "/api/state", ""); r.Code != 500 || !strings.Contains(r.Body.String(), "no table") {
		t.Errorf("%d %s", r.Code, r.Body)
	}
}

// An answer is bounded for any number of objects; the objects that are left out are counted.
func TestStateBounds(t *testing.T) {
	w := &world{list: []statsocket.Process{processOf(1, 5000)}}
	for pid := 2; pid < 1000; pid++ {
		w.list = append(w.list, processOf(pid, 2))
	}
	failed := &w.list[0].State.Devices[0].QPs[4999]
	failed.State = verbs.StateError
	st := stateOf(t, newServer(w), "")
	qps, devices, found := 0, 0, false
	for _, p := range st.Processes {
		devices += len(p.Devices)
		for _, d := range p.Devices {
			qps += len(d.QPs)
			for _, q := range d.QPs {
				found = found || q.QPN == uint32(failed.QPN) && q.State == "ERR"
			}
		}
	}
	if len(st.Processes) != maxProcesses || st.LeftOut.Processes != 999-maxProcesses || devices != maxDevices ||
		qps > maxQPs || !found {
		t.Errorf("%d processes, %d devices, %d queue pairs, the failed one: %v; %+v", len(st.Processes), devices, qps,
			found, st.LeftOut)
	}
	if st.LeftOut.QPs != 5000+998*2-maxQPs || st.Objects.QPs != 5000+998*2 {
		t.Errorf("%+v, %+v", st.LeftOut, st.Objects)
	}
}

// So many ladders at a time, each as long as it is asked for.
func TestLadders(t *testing.T) {
	w := &world{packets: &observe.Packets{}}
	l := newLadders(w.watch)
	for n := range maxLadders + 3 {
		got, err := l.last(t.Context(), qpKey{pid: 1, device: "roce:192.0.2.1", qpn: verbs.QPN(n)}, 0)
		if n < maxLadders && (err != nil || got.SVG != "") || n >= maxLadders && err == nil {
			t.Errorf("%d: %+v, %v", n, got, err)
		}
	}
	if _, err := l.last(t.Context(), qpKey{pid: 1, device: "roce:192.0.2.1", qpn: 0}, 0); err != nil ||
		w.watchers() != maxLadders {
		t.Errorf("%v, %d are watched", err, w.watchers())
	}
	w.refused = errors.New("the process has ended")
	if _, err := l.last(t.Context(), qpKey{pid: 1, device: "roce:192.0.2.1", qpn: 0}, 0); err == nil ||
		w.watchers() != maxLadders-1 {
		t.Errorf("%v, %d are watched", err, w.watchers())
	}
	l.lock.Lock()
	for _, o := range l.open {
		o.end.Reset(time.Millisecond) // the lease
	}
	l.lock.Unlock()
	for end := time.Now().Add(time.Minute); w.watchers() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d are watched after their lease", w.watchers())
		}
	}
	w.refused = nil
	if _, err := l.last(t.Context(), qpKey{pid: 1, device: "roce:192.0.2.1", qpn: 0}, 0); err != nil {
		t.Error(err)
	}
	l.close()
	if _, err := l.last(t.Context(), qpKey{pid: 1, device: "roce:192.0.2.1", qpn: 0}, 0); err == nil ||
		w.watchers() != 0 {
		t.Errorf("%v, %d are watched", err, w.watchers())
	}
}

// serveIn serves until the test ends, and returns the address.
func serveIn(t *testing.T, w *world) (s *Server, addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s = New(l.Addr(), Options{})
	s.source, s.ladders = newSource(w.read), newLadders(w.watch)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s, l.Addr().String()
}

// ask asks for the state over a connection, and returns the answer's status.
func ask(t *testing.T, c net.Conn, key string) int {
	t.Helper()
	c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := fmt.Fprintf(c, "GET /api/state HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n",
		key); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, r.Body)
	r.Body.Close()
	return r.StatusCode
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// A client with the key is answered, and stays connected, however many silent clients, or clients without a key,
// connect.
func TestStrangers(t *testing.T) {
	s, addr := serveIn(t, &world{})
	mine := dial(t, addr)
	if n := ask(t, mine, s.Key()); n != 200 {
		t.Fatal(n)
	}
	var silent []net.Conn
	for i := range 3 * maxUnknown {
		c := dial(t, addr)
		if i%10 == 0 {
			fmt.Fprint(c, "GET / HTTP/1.1\r\n") // and goes on another time
		}
		silent = append(silent, c)
	}
	if n := ask(t, dial(t, addr), ""); n != 401 {
		t.Error(n)
	}
	for range 2 {
		if n := ask(t, mine, s.Key()); n != 200 {
			t.Error(n)
		}
		if n := ask(t, dial(t, addr), s.Key()); n != 200 {
			t.Error(n)
		}
	}
	silent[0].SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.Copy(io.Discard, silent[0]); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the oldest silent connection is open")
	}
}

// The number of connections that have shown the key is limited, and one that ends makes room.
func TestConnections(t *testing.T) {
	s, addr := serveIn(t, &world{})
	var conns []net.Conn
	for range maxConns {
		c := dial(t, addr)
		if n := ask(t, c, s.Key()); n != 200 {
			t.Fatal(n)
		}
		conns = append(conns, c)
	}
	if n := ask(t, dial(t, addr), s.Key()); n != 503 {
		t.Error("one more is served:", n)
	}
	conns[0].Close()
	for end := time.Now().Add(time.Minute); ask(t, dial(t, addr), s.Key()) != 200; {
		if time.Now().After(end) {
			t.Fatal("none is served after one has gone")
		}
	}
}

// Problems of devices, connections and queue pairs are in the answer once each, with their explanations.
func TestProblems(t *testing.T) {
	p := processOf(5, 3)
	d := &p.State.Devices[0]
	d.Ports[0].State = verbs.PortDown
	const failure, unreachable = "RETRY_EXC_ERR: the peer does not answer",
		"verbs: connect: no answer in time: 192.0.2.7:7471 does not answer"
	d.QPs[0].Failed, d.QPs[2].Failed = failure, failure
	d.Conns = []driver.ConnInfo{{State: "failed", Failed: unreachable}, {State: "connected"}}
	unread := statsocket.Process{PID: 9, Instance: 9, Command: "kv", Err: observe.ErrTruncated}
	st := stateOf(t, newServer(&world{list: []statsocket.Process{p, unread}}), "")
	got := st.Processes[0].Devices[0]
	want := []Problem{{"port 1 is down", "IBV_EVENT_PORT_ERR"}, {"1 connection failed: " + unreachable, unreachable},
		{"2 queue pairs failed: " + failure, failure}}
	if !slices.Equal(got.Problems, want) || got.MoreProblems != 0 {
		t.Errorf("%+v, %d", got.Problems, got.MoreProblems)
	}
	for _, e := range want {
		if list := st.Explained[e.Error]; len(list) == 0 || list[0].Means == "" {
			t.Errorf("%q is not explained", e.Error)
		}
	}
	for i := range d.QPs {
		d.QPs[i].Failed = fmt.Sprintf("WR_FLUSH_ERR: number %d", i)
	}
	got = stateOf(t, newServer(&world{list: []statsocket.Process{p}}), "").Processes[0].Devices[0]
	if len(got.Problems) != maxProblems || got.MoreProblems != 1 {
		t.Errorf("%+v, %d", got.Problems, got.MoreProblems)
	}
}

// Latencies of devices add up, by operation.
func TestLatency(t *testing.T) {
	a, b := processOf(5, 1), processOf(7, 1)
	for i, p := range []statsocket.Process{a, b} {
		h := verbs.Latency{Op: verbs.WCWrite}
		h.Add(time.Duration(i+1) * 10 * time.Microsecond)
		p.State.Devices[0].Latencies = []verbs.Latency{h}
	}
	s := newServer(&world{list: []statsocket.Process{a, b}})
	all := stateOf(t, s, "").Scope.Latency
	if len(all.BoundsNS) != metric.Buckets-1 || len(all.Operations) != 1 {
		t.Fatalf("%+v", all)
	}
	if o := all.Operations[0]; o.Name != "RDMA_WRITE" || o.Samples != 2 || o.MeanNS != 15_000 || o.Buckets[6] != 1 ||
		o.Buckets[7] != 1 {
		t.Errorf("%+v", o)
	}
	of := s.source.tracker.Processes()[1].Devices[0]
	if one := stateOf(t, s, fmt.Sprintf("?scope=%d", of.ID)).Scope.Latency; len(one.Operations) != 1 ||
		one.Operations[0].MeanNS != 20_000 {
		t.Errorf("%+v", one)
	}
}

// packets are a WRITE and its acknowledgement.
func packets() *observe.Packets {
	local, peer := observe.Address{}, observe.Address{}
	local.GID[10], local.GID[11], local.GID[15] = 255, 255, 5
	peer.GID[10], peer.GID[11], peer.GID[15] = 255, 255, 7
	w := ib.Packet{BTH: ib.BTH{Opcode: ib.RCWriteOnly, PSN: 77, DestQP: 7, AckReq: true},
		RETH: ib.RETH{VA: 4096, DMALen: 100}}
	a := ib.Packet{BTH: ib.BTH{Opcode: ib.RCAck, PSN: 77, DestQP: 100}}
	return &observe.Packets{Wire: observe.RoCEv2, Seen: 2, Packets: []observe.Packet{
		{At: 1e18, Sent: true, Local: local, Peer: peer, Length: 12 + 16 + 100 + 4, Head: w.AppendHeader(nil)},
		{At: 1e18 + 5000, Local: local, Peer: peer, Length: 12 + 4 + 4, Head: a.AppendHeader(nil)},
	}}
}

// On a narrow page the ladder is as wide as the page, on others as wide as it has to be.
func TestLadderWidth(t *testing.T) {
	widthOf := func(page int) (width int) {
		l, err := draw(packets(), qpKey{qpn: 100, peer: 7}, page)
		if err != nil {
			t.Fatal(err)
		}
		at := strings.Index(l.SVG, ` width="`)
		if _, err := fmt.Sscanf(l.SVG[at:], ` width="%d"`, &width); err != nil {
			t.Fatal(err, l.SVG[:200])
		}
		return width
	}
	full := widthOf(0)
	for page, want := range map[int]int{-1: full, 1: ladder.MinPicture, 380: 380, full: full, 1 << 30: full} {
		if got := widthOf(page); got != want {
			t.Errorf("%d pixels on a page of %d, want %d", got, page, want)
		}
	}
}

// The ladder says which retry it was, of as many as the queue pair has, and how the conversation ended.
func TestLadderEndings(t *testing.T) {
	p := packets()
	again := p.Packets[0]
	again.At += 1e9
	p.Packets = []observe.Packet{p.Packets[0], again}
	key := qpKey{qpn: 100, peer: 7, retries: 5, rnrRetries: 7}
	l, err := draw(p, key, 0)
	if err != nil || len(l.Endings) != 1 || !strings.Contains(l.Endings[0].Text, "no answer to PSN 77") ||
		!strings.Contains(l.Endings[0].Text, "retry 1 of 5") || len(l.Endings[0].Errors) == 0 {
		t.Errorf("%+v, %v", l, err)
	}
	if !strings.Contains(l.SVG, "retry 1 of 5") {
		t.Error("the ladder does not say which retry it is")
	}
	if l, err = draw(packets(), key, 0); err != nil || len(l.Endings) != 0 {
		t.Errorf("all was answered: %+v, %v", l.Endings, err)
	}
	nak := packets()
	refused := ib.Packet{BTH: ib.BTH{Opcode: ib.RCAck, PSN: 77, DestQP: 100},
		AETH: ib.AETH{Syndrome: ib.NAK(ib.NAKRemoteAccessError)}}
	nak.Packets[1].Head = refused.AppendHeader(nil)
	if l, err = draw(nak, key, 0); err != nil || len(l.Endings) != 1 || len(l.Endings[0].Errors) == 0 {
		t.Errorf("%+v, %v", l.Endings, err)
	}
}
