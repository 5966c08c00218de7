// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/system/rdmasys"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// processOf returns a process with a device that has so many queue pairs.
func processOf(pid, qps int) statsocket.Process {
	d := observe.Device{Name: "roce:192.0.2.7", Kind: "roce", Ports: []observe.Port{{Num: 1, State: verbs.PortActive}},
		Metrics: []observe.Metric{{Name: "timeouts", Base: "timeouts", Unit: "events", Help: "of acknowledgements",
			Value: 3},
			{Name: "dropped_icrc_error", Base: "dropped", Unit: "packets",
				Labels: []metric.Label{{Name: "reason", Value: "icrc_error"}}, Value: 2}}}
	for n := range qps {
		d.QPs = append(d.QPs, driver.QPInfo{QPStats: verbs.QPStats{QPN: verbs.QPN(100 + n), Type: verbs.RC,
			State: verbs.StateRTS, RTT: time.Millisecond}})
	}
	return statsocket.Process{PID: pid, Command: "kv", State: &observe.Process{PID: pid, Devices: []observe.Device{d}}}
}

func lines(h *Host, o Options) string {
	if o.Series == 0 {
		o.Series = 10_000
	}
	return string(write(h, o))
}

func wantLines(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains("\n"+got, "\n"+w+"\n") {
			t.Errorf("there is no %s in\n%s", w, got)
		}
	}
}

// A device of a process has the series of module metrics, with its process; the kernel's have none.
func TestWrite(t *testing.T) {
	h := &Host{Processes: []statsocket.Process{processOf(42, 2),
		{PID: 43, Command: "stopped", Err: errors.New("it is stopped")}},
		Kernel: []rdmasys.PortCounters{{Device: "mlx5_0", Port: 1, State: 4, Rate: 12.5e9,
			Metrics: []metric.Metric{{Name: "port_rcv_data", Unit: metric.UnitBytes, Value: 20}}}}}
	got := lines(h, Options{QueuePairs: 1, Version: "v1"})
	const device = `{pid="42",process="kv",device="roce:192.0.2.7"`
	wantLines(t, got,
		"# TYPE ramjet_timeouts_total counter", "# HELP ramjet_timeouts_total of acknowledgements",
		"ramjet_timeouts_total"+device+`,port="1"} 3`,
		"ramjet_port_discards_received_total"+device+`,port="1",reason="icrc_error"} 2`,
		"ramjet_qp_states"+device+`,type="RC",state="RTS"} 2`,
		"ramjet_qp_rtt_seconds"+device+`,qpn="100",type="RC"} 0.001`,
		"ramjet_qps_omitted"+device+`} 1`,
		"ramjet_scrape_success"+device+`} 1`, `ramjet_scrape_success{pid="43",process="stopped"} 0`,
		`ramjet_port_data_received_bytes_total{device="kernel:mlx5_0",port="1"} 20`,
		`ramjet_rate_bytes_per_second{device="kernel:mlx5_0",port="1"} 1.25e+10`, "ramjet_export_processes 2",
		"ramjet_export_processes_unread 1", "ramjet_export_complete 0", `ramjet_export_info{version="v1"} 1`)
	if strings.Contains(got, `qpn="101"`) {
		t.Error("the second queue pair has series")
	}
}

// Two devices of one name are told apart, and sysfs's counters of a device that processes opened are there once.
func TestSameDevice(t *testing.T) {
	p := processOf(1, 0)
	d := p.State.Devices[0]
	k := observe.Device{Name: "kernel:mlx5_0", Kind: "kernel",
		Metrics: []observe.Metric{{Name: "x_1", Base: "x", Labels: []metric.Label{{Name: "port", Value: "1"}},
			Value: 9}}}
	p.State.Devices = append(p.State.Devices, d, k)
	got := lines(&Host{Processes: []statsocket.Process{p}}, Options{})
	wantLines(t, got, `ramjet_timeouts_total{pid="1",process="kv",device="roce:192.0.2.7#2",port="1"} 3`,
		"ramjet_export_complete 1")
	if strings.Contains(got, "ramjet_x") {
		t.Error(got)
	}
}

// A process gets its share of the series, and takes none from others.
func TestShare(t *testing.T) {
	greedy, modest := processOf(1, 0), processOf(2, 0)
	for n := range 1000 {
		d := greedy.State.Devices[0]
		d.Name = fmt.Sprint("roce:", n)
		greedy.State.Devices = append(greedy.State.Devices, d)
	}
	got := lines(&Host{Processes: []statsocket.Process{greedy, modest}}, Options{Series: 400})
	if n := strings.Count(got, `{pid="1"`); n == 0 || n > 200 {
		t.Errorf("%d series of the process with many devices", n)
	}
	wantLines(t, got, `ramjet_timeouts_total{pid="2",process="kv",device="roce:192.0.2.7",port="1"} 3`,
		"ramjet_export_complete 0")
	if strings.Contains(got, "ramjet_export_devices_omitted 0") {
		t.Error("nothing is said to be omitted")
	}
}

// line is a line of the text format.
var line = regexp.MustCompile(
	`^(# (HELP|TYPE) ramjet_\w+ .*|ramjet_\w+(\{(\w+="([^"\\]|\\["\\n])*",?)+\})? [0-9.e+-]+)$`)

func checkText(t *testing.T, text string) {
	t.Helper()
	seen := map[string]bool{}
	for l := range strings.Lines(text) {
		l = strings.TrimSuffix(l, "\n")
		if !line.MatchString(l) {
			t.Errorf("%q", l)
		}
		series := l[:strings.LastIndexByte(l, ' ')]
		if !strings.HasPrefix(l, "#") && seen[series] {
			t.Errorf("twice: %q", l)
		}
		seen[series] = true
	}
}

// FuzzSnapshot takes the description that a process may give of itself.
func FuzzSnapshot(f *testing.F) {
	f.Add("roce:1", "timeouts", "help", "reason", "x", "connected", uint64(1))
	f.Add("", "", "", "", "", "", uint64(0))
	f.Add("a\"\\\n", "9 {}", "\n# TYPE x y\\", "pid", "\"", "\xff", uint64(1<<63))
	f.Add("d", "qps", "a gauge's name", "device", "e", "", uint64(7))
	f.Fuzz(func(t *testing.T, device, name, help, key, value, state string, n uint64) {
		p := processOf(1, 1)
		p.Command = device
		d := observe.Device{Name: device, Kind: name, Firmware: help, Conns: []driver.ConnInfo{{State: state}},
			QPs: []driver.QPInfo{{QPStats: verbs.QPStats{Type: verbs.QPType(n), State: verbs.QPState(n)}}}}
		for i, unit := range []string{"", "bytes", "nanoseconds"} {
			d.Metrics = append(d.Metrics, observe.Metric{Name: name, Base: name, Gauge: i == 1, Unit: unit, Help: help,
				Labels: []metric.Label{{Name: key, Value: value}, {Name: key, Value: value}}, Value: n})
		}
		h := verbs.Latency{Op: verbs.WCOp(n), Histogram: metric.Histogram{Count: n, Sum: time.Duration(n)}}
		h.Buckets[n%metric.Buckets] = n
		d.Latencies = []verbs.Latency{h, h}
		p.State.Devices = append(p.State.Devices, d, d)
		checkText(t, lines(&Host{Processes: []statsocket.Process{p, p}}, Options{QueuePairs: int(n % 3)}))
	})
}

func exporterOf(read func(context.Context) (*Host, error)) *Exporter {
	e := newExporter(func(ctx context.Context) ([]byte, error) {
		h, err := read(ctx)
		if err != nil {
			return nil, err
		}
		return write(h, Options{Series: 1000}), nil
	})
	e.loopback = true
	return e
}

func get(e *Exporter, method, host, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	e.ServeHTTP(w, &http.Request{Method: method, URL: &url.URL{Path: path}, Host: host, Header: http.Header{}})
	return w
}

// FuzzRequest sends the server any requests.
func FuzzRequest(f *testing.F) {
	f.Add("GET", "127.0.0.1:9477", "/metrics")
	f.Add("POST", "localhost", "/")
	f.Add("", "", "")
	f.Add("HEAD", "[::1]:1", "/../metrics")
	f.Fuzz(func(t *testing.T, method, host, path string) {
		e := exporterOf(func(context.Context) (*Host, error) { return &Host{}, nil })
		if w := get(e, method, host, path); w.Code >= 500 {
			t.Errorf("status %d", w.Code)
		}
	})
}

func TestRequests(t *testing.T) {
	e := exporterOf(func(context.Context) (*Host, error) { return nil, errors.New("no /proc") })
	for _, c := range []struct {
		method, host, path string
		status             int
	}{
		{"GET", "127.0.0.1:9477", "/", 200}, {"GET", "localhost:9477", "/x", 404},
		{"POST", "localhost", "/metrics", 405},
		{"GET", "evil.example", "/metrics", 421}, {"GET", "192.0.2.1", "/metrics", 421},
		{"GET", "[::1]:9477", "/metrics", 500},
	} {
		if w := get(e, c.method, c.host, c.path); w.Code != c.status {
			t.Errorf("%s %s%s: status %d, want %d: %s", c.method, c.host, c.path, w.Code, c.status, w.Body)
		}
	}
}

// However many scrapes come at once, the host is read once, and scrapes beyond a limit are refused.
func TestShared(t *testing.T) {
	reads, begun, release := 0, make(chan struct{}), make(chan struct{})
	e := exporterOf(func(context.Context) (*Host, error) {
		reads++
		close(begun)
		<-release
		return &Host{}, nil
	})
	var wait sync.WaitGroup
	codes := make(chan int, 2*maxWaiting)
	scrape := func() { codes <- get(e, "GET", "localhost", "/metrics").Code }
	wait.Go(scrape)
	<-begun
	for range maxWaiting - 1 {
		wait.Go(scrape)
	}
	for end := time.Now().Add(time.Minute); len(e.waiting) < maxWaiting; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the scrapes do not wait")
		}
	}
	if w := get(e, "GET", "localhost", "/metrics"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("one more than may wait: status %d", w.Code)
	}
	close(release)
	wait.Wait()
	close(codes)
	for c := range codes {
		if c != http.StatusOK {
			t.Errorf("status %d", c)
		}
	}
	if reads != 1 {
		t.Errorf("the host was read %d times", reads)
	}
}

// A server ends with its context, keeps few connections, and answers behind silent ones.
func TestServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	e := exporterOf(func(context.Context) (*Host, error) { return &Host{}, nil })
	go func() { ended <- e.Serve(ctx, l) }()
	for range maxConns + 8 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	r, err := http.Get("http://" + l.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil || r.Header.Get("Content-Type") != contentType {
		t.Errorf("%v, %s", err, r.Header.Get("Content-Type"))
	}
	checkText(t, string(b))
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
}

// Histograms have cumulative buckets, and no series that a process makes up is taken for a part of them.
func TestLatencies(t *testing.T) {
	p := processOf(42, 0)
	d := &p.State.Devices[0]
	h := verbs.Latency{Op: verbs.WCWrite}
	h.Add(30 * time.Microsecond)
	h.Add(4 * time.Microsecond)
	h.Add(time.Minute)
	d.Latencies = []verbs.Latency{h}
	d.Metrics = append(d.Metrics, observe.Metric{Name: latencies + "_count", Base: latencies + "_count", Gauge: true,
		Value: 9})
	got := lines(&Host{Processes: []statsocket.Process{p}}, Options{})
	const series, labels = "ramjet_" + latencies, `{pid="42",process="kv",device="roce:192.0.2.7",op="RDMA_WRITE"`
	wantLines(t, got, "# TYPE "+series+" histogram", series+"_bucket"+labels+`,le="2e-06"} 0`,
		series+"_bucket"+labels+`,le="5e-06"} 1`,
		series+"_bucket"+labels+`,le="5e-05"} 2`, series+"_bucket"+labels+`,le="10"} 2`,
		series+"_bucket"+labels+`,le="+Inf"} 3`,
		series+"_sum"+labels+"} 60.000034", series+"_count"+labels+"} 3")
	if strings.Contains(got, " 9\n") {
		t.Error("a made-up series is part of the histogram")
	}
	if n := strings.Count(got, series+"_"); n != metric.Buckets+2 {
		t.Errorf("%d series", n)
	}
}
