// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/metrics"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func open(t *testing.T, name string) *verbs.Device {
	t.Helper()
	dev := must(ramjet.Open(name))(t)
	t.Cleanup(func() { dev.Close() })
	return dev
}

// address returns one of 14 addresses of the loopback interface that this process has to itself: 1 to 14.
func address(n int) string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 32|pid>>12&31, pid>>4&255, pid&15<<4|n)
}

// converse connects two devices, which stay connected, and has a message of n bytes go over it and
// one come back.
func converse(t *testing.T, server, client *verbs.Device, address string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l := must(cm.Listen(ctx, server, ":7471", cm.WithRecvSize(n)))(t)
	t.Cleanup(func() { l.Close() })
	echoed := make(chan error, 1)
	go func() {
		conn, err := l.Accept(ctx)
		if err == nil {
			var msg *cm.Buffer
			if msg, err = conn.Recv(ctx); err == nil {
				err = conn.Send(ctx, msg.Bytes())
				msg.Release()
			}
		}
		echoed <- err
	}()
	conn := must(cm.Dial(ctx, client, address+":7471", cm.WithRecvSize(n)))(t)
	if err := conn.Send(ctx, make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	must(conn.Recv(ctx))(t).Release()
	if err := <-echoed; err != nil {
		t.Fatal(err)
	}
}

// everyKind opens two devices of each kind that needs no privileges, with a conversation of messages
// of n bytes on each, and returns the clients.
func everyKind(t *testing.T, n int) []*verbs.Device {
	t.Helper()
	var clients []*verbs.Device
	for _, k := range []struct{ kind, server, client string }{
		{"roce:", address(1), address(2)},
		{"iwarp:", address(3), address(4)},
		{"shm:", address(5), address(6)},
	} {
		server, client := open(t, k.kind+k.server), open(t, k.kind+k.client)
		converse(t, server, client, k.server, n)
		clients = append(clients, client)
	}
	f := must(infiniband.GenerateFabric("fat-tree:2,2", nil))(t)
	t.Cleanup(func() { f.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := f.AwaitActive(ctx); err != nil {
		t.Fatal(err)
	}
	server, client := must(f.Open("host-4", nil))(t), must(f.Open("host-1", nil))(t)
	t.Cleanup(func() { server.Close(); client.Close() })
	converse(t, server, client, "198.18.0.4", n)
	return append(clients, client)
}

// gather returns the metrics of a collector, by name, as a registry that checks everything takes it.
func gather(t *testing.T, c *metrics.Collector) map[string]*dto.MetricFamily {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	all := map[string]*dto.MetricFamily{}
	for _, f := range must(r.Gather())(t) {
		all[f.GetName()] = f
	}
	return all
}

// value returns the sum of the values of a name's series that have the labels.
func value(f *dto.MetricFamily, labels map[string]string) (sum float64, series int) {
	for _, m := range f.GetMetric() {
		matching := 0
		for _, l := range m.GetLabel() {
			if labels[l.GetName()] == l.GetValue() && l.GetValue() != "" {
				matching++
			}
		}
		if matching == len(labels) {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			series++
		}
	}
	return sum, series
}

// Prometheus's own linter and its strictest registry have nothing against any kind's series.
func TestLint(t *testing.T) {
	devices := everyKind(t, 100)
	c := metrics.NewWith(metrics.Options{QueuePairs: 10}, devices...)
	for _, p := range must(testutil.CollectAndLint(c))(t) {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// A device's traffic is in its counters, under node_exporter's names.
func TestTraffic(t *testing.T) {
	const n = 10_000
	devices := everyKind(t, n)
	c := metrics.New(devices...)
	for _, d := range devices {
		for _, name := range []string{"ramjet_port_data_received_bytes_total",
			"ramjet_port_data_transmitted_bytes_total"} {
			eventually(t, func() bool {
				got, _ := value(gather(t, c)[name], map[string]string{"device": d.Name(), "port": "1"})
				return got >= n
			}, d.Name()+": "+name)
		}
		all := gather(t, c)
		for _, name := range []string{"ramjet_port_packets_received_total", "ramjet_port_packets_transmitted_total",
			"ramjet_info", "ramjet_scrape_success", "ramjet_qps"} {
			if got, _ := value(all[name], map[string]string{"device": d.Name()}); got < 1 {
				t.Errorf("%s: %s is %v", d.Name(), name, got)
			}
		}
		if got, _ := value(all["ramjet_state_id"],
			map[string]string{"device": d.Name(), "port": "1"}); got != float64(verbs.PortActive) {
			t.Errorf("%s: the state is %v", d.Name(), got)
		}
		if got, _ := value(all["ramjet_qp_states"],
			map[string]string{"device": d.Name(), "type": "RC", "state": "RTS"}); got < 1 {
			t.Errorf("%s: %v connected queue pairs", d.Name(), got)
		}
	}
}

func eventually(t *testing.T, ok func() bool, what string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// The number of series does not follow that of queue pairs, unless it is asked for, and then up to a
// limit.
func TestCardinality(t *testing.T) {
	dev := open(t, "roce:"+address(7))
	pd, cq := must(dev.AllocPD())(t), must(dev.CreateCQ(16, nil))(t)
	few, limited := metrics.New(dev), metrics.NewWith(metrics.Options{QueuePairs: 3}, dev)
	create := func(n int) {
		for range n {
			must(pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq}))(t)
		}
	}
	create(5)
	before, one := testutil.CollectAndCount(few), testutil.CollectAndCount(limited)
	create(95)
	if after := testutil.CollectAndCount(few); after != before || after > 100 {
		t.Errorf("%d series with 100 queue pairs, %d with 5", after, before)
	}
	if after := testutil.CollectAndCount(limited); after != one || after <= before {
		t.Errorf("%d series with 100 queue pairs of which 3 are named, %d with 5; %d without names", after, one, before)
	}
	all := gather(t, limited)
	if _, series := value(all["ramjet_qp_sent_msgs_total"], nil); series != 3 {
		t.Errorf("%d queue pairs are named, not 3", series)
	}
	stats := must(dev.QPStats())(t)
	if omitted, _ := value(all["ramjet_qps_omitted"], nil); int(omitted) != len(stats)-3 {
		t.Errorf("%v of %d queue pairs are said to be omitted", omitted, len(stats))
	}
	if got, _ := value(all["ramjet_qp_states"], map[string]string{"state": "RESET"}); got != 100 {
		t.Errorf("%v queue pairs in RESET", got)
	}
}

// Work requests that were measured are in a histogram of their operation, whose buckets add up.
func TestLatency(t *testing.T) {
	all := gather(t, metrics.New(everyKind(t, 100)...))
	f := all["ramjet_completion_latency_seconds"]
	sends := map[string]bool{}
	for _, m := range f.GetMetric() {
		h := m.GetHistogram()
		last := h.GetBucket()[len(h.GetBucket())-1]
		if h.GetSampleCount() == 0 || h.GetSampleSum() <= 0 || len(h.GetBucket()) != metric.Buckets-1 ||
			last.GetUpperBound() != 10 || last.GetCumulativeCount() != h.GetSampleCount() {
			t.Errorf("%v", m)
		}
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if labels["op"] == "SEND" {
			sends[labels["device"]] = true
		}
	}
	if len(sends) != 4 {
		t.Errorf("SENDs were measured on %v", sends)
	}
}

// Devices come and go while the collector is registered.
func TestAddRemove(t *testing.T) {
	a, b := open(t, "iwarp:"+address(8)), open(t, "iwarp:"+address(9))
	c := metrics.New(a)
	c.Add(a)
	c.Add(b)
	if _, series := value(gather(t, c)["ramjet_info"], nil); series != 2 {
		t.Errorf("%d devices, not 2", series)
	}
	c.Remove(a)
	if _, series := value(gather(t, c)["ramjet_info"], map[string]string{"device": b.Name()}); series != 1 {
		t.Errorf("%d series of the device that stays", series)
	}
	if _, series := value(gather(t, c)["ramjet_info"], nil); series != 1 {
		t.Errorf("%d devices, not 1", series)
	}
}

// Two devices of one name have two labels, as a registry would refuse them otherwise.
func TestSameName(t *testing.T) {
	a, b := open(t, "roce:"+address(10)), open(t, "roce:"+address(10))
	all := gather(t, metrics.New(a, b))
	for _, label := range []string{a.Name(), a.Name() + "#2"} {
		if _, series := value(all["ramjet_info"], map[string]string{"device": label}); series != 1 {
			t.Errorf("%d series of %s", series, label)
		}
	}
}

// A device that counts nothing keeps nobody from reading the others.
func TestSilentDevice(t *testing.T) {
	silent := driver.NewDevice(mute{})
	loud := open(t, "roce:"+address(11))
	all := gather(t, metrics.New(silent, loud))
	for label, want := range map[string]float64{"mute": 0, loud.Name(): 1} {
		if got, series := value(all["ramjet_scrape_success"], map[string]string{"device": label}); got != want ||
			series != 1 {
			t.Errorf("%s: %v in %d series, want %v", label, got, series, want)
		}
	}
}

// mute is a driver that measures nothing, and is asked for nothing else.
type mute struct{ driver.Device }

func (mute) Latencies() ([]verbs.Latency, error)     { return nil, verbs.ErrNotSupported }
func (mute) QueryDevice() verbs.DeviceAttr           { return verbs.DeviceAttr{Name: "mute", Ports: 1} }
func (mute) QueryPort(int) (verbs.PortAttr, error)   { return verbs.PortAttr{}, verbs.ErrNotSupported }
func (mute) Metrics() ([]metric.Metric, error)       { return nil, verbs.ErrNotSupported }
func (mute) QPStats() ([]verbs.QPStats, error)       { return nil, verbs.ErrNotSupported }
func (mute) SetEventSink(func(verbs.EventType, int)) {}
func (mute) Close() error                            { return nil }

// ofPods are the labels that ramjet-kubelet adds to the labels of `ramjet export`. Series without them have them empty,
// which the choice of all matches.
var ofPods = []string{"namespace", "pod", "container"}

// Every name in the dashboard's queries is one that the collector or `ramjet export` tells, with the labels by which
// the queries choose and sum.
func TestDashboard(t *testing.T) {
	type target struct{ Expr, LegendFormat string }
	var board struct {
		Panels []struct {
			Title   string
			Targets []target
		}
		Templating struct {
			List []struct {
				Name  string
				Type  string
				Query json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(must(os.ReadFile("dashboard.json"))(t), &board); err != nil {
		t.Fatal(err)
	}
	devices := everyKind(t, 100)
	all, _ := exported(t)
	for name, f := range gather(t, metrics.New(devices...)) {
		if all[name] == nil {
			all[name] = f // a histogram
		}
	}
	name, braces := regexp.MustCompile(`ramjet_[a-z0-9_]+`), regexp.MustCompile(`\{\{(\w+)\}\}`)
	seen := 0
	check := func(query string, labels []string) {
		if strings.HasPrefix(query, "ALERTS{") {
			return
		}
		names := name.FindAllString(query, -1)
		if len(names) == 0 {
			t.Errorf("%q has no name", query)
		}
		for _, n := range names {
			seen++
			f := all[strings.TrimSuffix(n, "_bucket")] // of a histogram
			if f == nil && slices.Contains(kernelOnly, n) {
				continue
			}
			if f == nil {
				t.Errorf("%q: there is no %s", query, n)
				continue
			}
			if strings.Contains(query, "rate(") != (strings.HasSuffix(n, "_total") ||
				strings.HasSuffix(n, "_bucket")) && !strings.Contains(query, "increase(") {
				t.Errorf("%q: a counter has a rate, and a gauge has none", query)
			}
			for _, l := range labels {
				// of Prometheus, and of ramjet export
				has := slices.Contains([]string{"instance", "pid", "process"}, l) ||
					slices.Contains(ofPods, l)
				for _, pair := range f.GetMetric()[0].GetLabel() {
					has = has || pair.GetName() == l
				}
				if !has {
					t.Errorf("%q: %s has no label %s", query, n, l)
				}
			}
		}
	}
	for _, p := range board.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("%s: no queries", p.Title)
		}
		for _, q := range p.Targets {
			labels := []string{"device"}
			for _, m := range braces.FindAllStringSubmatch(q.LegendFormat, -1) {
				labels = append(labels, m[1])
			}
			check(q.Expr, labels)
			for _, l := range ofPods {
				if strings.Contains(q.Expr, "$process") && (!strings.Contains(q.Expr, l+`=~"$`+l+`"`) ||
					!strings.Contains(q.LegendFormat, "{{"+l+"}}") && strings.Contains(q.LegendFormat, "{{process}}")) {
					t.Errorf("%q, %q: no choice by %s, or it is not named", q.Expr, q.LegendFormat, l)
				}
			}
		}
	}
	for _, v := range board.Templating.List {
		if v.Type == "query" {
			check(string(v.Query), []string{"device", v.Name})
		}
	}
	if seen < 20 {
		t.Errorf("only %d names in the dashboard", seen)
	}
}

// docs/metrics.md lists what the collector and `ramjet export` tell, and nothing else.
func TestDocumented(t *testing.T) {
	page := string(must(os.ReadFile("../docs/metrics.md"))(t))
	own := gather(t, metrics.NewWith(metrics.Options{QueuePairs: 1}, everyKind(t, 100)...))
	all, _ := exported(t)
	maps.Copy(all, own)
	documented := map[string]bool{"ramjet_rate_bytes_per_second": true} // loopback interfaces have none
	for _, m := range regexp.MustCompile("`(ramjet_[a-z0-9_]+[a-z0-9])`").FindAllStringSubmatch(page, -1) {
		if all[m[1]] == nil && !documented[m[1]] {
			t.Errorf("the page has %s, which nobody tells", m[1])
		}
		documented[m[1]] = true
	}
	for name := range all {
		if !documented[name] && !strings.HasPrefix(name, "ramjet_qp_") { // the metrics of single queue pairs
			t.Errorf("%s is told, and not on the page", name)
		}
	}
}
