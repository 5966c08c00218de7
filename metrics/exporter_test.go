// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/ramjet-rdma/ramjet/metrics"
)

// built is the command, which the first test that needs it builds.
var built = sync.OnceValues(func() (string, error) {
	command := filepath.Join(os.TempDir(), "ramjet-export-test-"+strconv.Itoa(os.Getpid()))
	if out, err := exec.Command("go", "build", "-C", "..", "-ldflags=-w", "-o", command,
		"./cmd/ramjet").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return command, nil
})

func TestMain(m *testing.M) {
	status := m.Run()
	os.Remove(filepath.Join(os.TempDir(), "ramjet-export-test-"+strconv.Itoa(os.Getpid()))) // if it was built
	os.Exit(status)
}

// exported returns the metrics of `ramjet export` for this process and for itself, by name, and all that it writes. It
// waits no more than seconds for a process: where this one was too slow, it is asked again.
func exported(t *testing.T) (map[string]*dto.MetricFamily, []byte) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		all, out := exportedOnce(t)
		if read, _ := value(all["ramjet_scrape_success"], nil); read > 0 || time.Now().After(end) {
			return all, out
		}
	}
}

func exportedOnce(t *testing.T) (map[string]*dto.MetricFamily, []byte) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("processes are seen on Linux only")
	}
	command := must(built())(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out := must(exec.CommandContext(ctx, command, "export", "--once", "--queue-pairs", "1").Output())(t)
	p := expfmt.NewTextParser(model.LegacyValidation)
	all := must(p.TextToMetricFamilies(bytes.NewReader(out)))(t)
	for name, f := range all {
		f.Metric = slices.DeleteFunc(f.Metric, func(m *dto.Metric) bool { // of other processes on the machine
			return slices.ContainsFunc(m.GetLabel(),
				func(l *dto.LabelPair) bool {
					return l.GetName() == "pid" &&
						l.GetValue() != strconv.Itoa(os.Getpid())
				})
		})
		if len(f.Metric) == 0 {
			delete(all, name)
		}
	}
	return all, out
}

// labelNames returns the labels of a series, without the ones that only `ramjet export` has.
func labelNames(m *dto.Metric) (names []string) {
	for _, l := range m.GetLabel() {
		if !slices.Contains([]string{"pid", "process", "uid"}, l.GetName()) && l.GetValue() != "" {
			names = append(names, l.GetName())
		}
	}
	slices.Sort(names)
	return names
}

// of returns the first series of a device.
func of(f *dto.MetricFamily, device string) *dto.Metric {
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == "device" && l.GetValue() == device {
				return m
			}
		}
	}
	return nil
}

// `ramjet export` has the collector's names, with its types, texts and labels. Histograms are the collector's alone.
func TestExporter(t *testing.T) {
	devices := everyKind(t, 100)
	own := gather(t, metrics.NewWith(metrics.Options{QueuePairs: 1}, devices...))
	all, text := exported(t)
	for name, f := range own {
		if f.GetType() == dto.MetricType_HISTOGRAM {
			continue
		}
		g := all[name]
		if g == nil {
			t.Errorf("ramjet export has no %s", name)
			continue
		}
		if g.GetType() != f.GetType() || g.GetHelp() != f.GetHelp() {
			t.Errorf("%s is a %v, %q; with ramjet export a %v, %q", name, f.GetType(), f.GetHelp(), g.GetType(),
				g.GetHelp())
		}
		for _, d := range devices {
			a, b := of(f, d.Name()), of(g, d.Name())
			if a == nil && b == nil {
				continue
			}
			if a == nil || b == nil || !slices.Equal(labelNames(a), labelNames(b)) {
				t.Errorf("%s of %s: %v, with ramjet export %v", name, d.Name(), a, b)
			}
		}
	}
	tool(t, text, "promtool", "check", "metrics")
}

// tool runs a program of Prometheus's, if it is there.
func tool(t *testing.T, in []byte, program string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Logf("%s is not here: Debian has it in packages prometheus and prometheus-alertmanager", program)
		return
	}
	c := exec.CommandContext(t.Context(), program, args...)
	c.Stdin = bytes.NewReader(in)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
}

// Prometheus and Alertmanager take the files, and each alert has a test in which it fires and one in which it does not.
func TestAlerts(t *testing.T) {
	rules, tests := string(must(os.ReadFile("alerts.yml"))(t)), string(must(os.ReadFile("alerts_test.yml"))(t))
	names := regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllStringSubmatch(rules, -1)
	if len(names) < 10 {
		t.Errorf("%d alerts", len(names))
	}
	for _, n := range names {
		if strings.Count(tests, "alertname: "+n[1]+"\n") != 2 {
			t.Errorf("%s has not two tests", n[1])
		}
	}
	tool(t, nil, "promtool", "check", "rules", "alerts.yml")
	tool(t, nil, "promtool", "test", "rules", "alerts_test.yml")
	tool(t, nil, "amtool", "check-config", "alertmanager.yml")
}

// kernelOnly are names that only devices of the kernel have, which are not on every machine.
var kernelOnly = []string{"ramjet_link_downed_total", "ramjet_symbol_error_total", "ramjet_port_errors_received_total",
	"ramjet_port_discards_transmitted_total"}

// Every name in an alert is told.
func TestAlertNames(t *testing.T) {
	everyKind(t, 100)
	all, _ := exported(t)
	for _, n := range regexp.MustCompile(`\bramjet_[a-z0-9_]+`).FindAllString(
		string(must(os.ReadFile("alerts.yml"))(t)), -1) {
		if all[n] == nil && !slices.Contains(kernelOnly, n) {
			t.Errorf("there is no %s", n)
		}
	}
}

// Panels of alarms are at the top of the dashboard, and panels do not lie on each other.
func TestDashboardOrder(t *testing.T) {
	type place struct{ X, Y, W, H int }
	var board struct {
		Panels []struct {
			Title   string
			GridPos place
		}
	}
	if err := json.Unmarshal(must(os.ReadFile("dashboard.json"))(t), &board); err != nil {
		t.Fatal(err)
	}
	if first := board.Panels[0]; first.Title != "Alerts" || first.GridPos.Y != 0 {
		t.Errorf("the first panel is %+v", first)
	}
	for i, a := range board.Panels {
		for _, b := range board.Panels[:i] {
			p, q := a.GridPos, b.GridPos
			if p.X < q.X+q.W && q.X < p.X+p.W && p.Y < q.Y+q.H && q.Y < p.Y+p.H {
				t.Errorf("%s lies on %s", a.Title, b.Title)
			}
		}
	}
}
