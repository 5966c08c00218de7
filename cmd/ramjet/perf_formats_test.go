// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/csv"
	"encoding/json"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/perfcmd"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestPerfCSV(t *testing.T) {
	t.Parallel()
	for args, sizes := range map[string]int{"bw --csv -a": 23, "bw --format csv": 1, "lat --format=csv": 1} {
		r := ramjetCmd(t, strings.Fields("perf send "+args+" --loopback -n 20")...)
		r.wantSuccess(t)
		rows, err := csv.NewReader(strings.NewReader(r.stdout)).ReadAll()
		if err != nil || len(rows) != 1+sizes || rows[0][0] != "#bytes" || sizes > 1 && rows[sizes][0] != "8388608" {
			t.Fatalf("%s: %v: %s", args, err, r.stdout)
		}
		for _, row := range rows[1:] {
			for i, field := range row {
				if v, err := strconv.ParseFloat(field, 64); err != nil ||
					v <= 0 && rows[0][i] != "lost" && rows[0][i] != "t_stdev[usec]" {
					t.Errorf("%s: %s is %q", args, rows[0][i], field)
				}
			}
		}
	}
}

func TestPerfHistogram(t *testing.T) {
	t.Parallel()
	r := ramjetCmd(t, strings.Fields("perf write lat --loopback -n 500 --runs 2 --histogram --json")...)
	r.wantSuccess(t)
	var out struct{ Results []perfcmd.Row }
	if err := json.Unmarshal([]byte(r.stdout), &out); err != nil || len(out.Results) != 1 {
		t.Fatalf("%v: %s", err, r.stdout)
	}
	list := out.Results[0].Percentiles
	if len(list) < 5 || list[len(list)-1].Percentile != 100 || list[len(list)-1].Count != 1000 {
		t.Fatalf("%+v", list)
	}
	for i := 1; i < len(list); i++ {
		if a, b := list[i-1], list[i]; b.Percentile < a.Percentile || b.Time < a.Time || b.Count < a.Count {
			t.Errorf("%+v after %+v", b, a)
		}
	}
	r = ramjetCmd(t, strings.Fields("perf write lat --loopback -n 500 --histogram")...)
	r.wantSuccess(t)
	if !strings.Contains(r.stdout, "percentiles of 2 bytes:") || !strings.Contains(r.stdout, "1.00000000") {
		t.Errorf("%s", r.stdout)
	}
}

// It goes on until it is interrupted, and then sums up its measurements.
func TestPerfRunInfinitely(t *testing.T) {
	t.Parallel()
	p := startReady(t, "polling", "perf", "send", "lat", "--loopback", "--run_infinitely", "-D", "100ms", "--histogram")
	time.Sleep(500 * time.Millisecond) // any number of periods is right
	p.interrupt()
	r := p.wait()
	r.wantSuccess(t)
	_, sum, ok := strings.Cut(r.stdout, "all of ")
	if !ok || !strings.Contains(sum, " periods, ") || !strings.Contains(sum, "#iterations") ||
		!strings.Contains(sum, "percentiles of 2 bytes") {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
}

func TestPerfFormatErrors(t *testing.T) {
	t.Parallel()
	for args, text := range map[string]string{
		"--format xml":               "there are table, csv and json",
		"--output json":              "did you mean --format json?",
		"--output /none/x.csv":       "give a file that can be written",
		"--json --csv":               "exclude each other",
		"--csv --compare":            "--compare has no place in CSV",
		"--csv --histogram":          "--histogram has no place in CSV",
		"--run_infinitely -n 5":      "--run_infinitely excludes",
		"--run_infinitely --all":     "--run_infinitely excludes",
		"--run_infinitely --runs 3":  "--run_infinitely excludes",
		"--run_infinitely --compare": "--run_infinitely excludes",
	} {
		ramjetCmd(t, strings.Fields("perf send lat --loopback "+args)...).wantError(t, cli.ExitUsage, text)
	}
}

// The name of a file chooses the form of its contents.
func TestPerfOutput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, begins := range map[string]string{"a.csv": "#bytes,", "a.json": "{", "a.txt": "----"} {
		file := filepath.Join(dir, name)
		r := ramjetCmd(t, "perf", "send", "bw", "--loopback", "-n", "20", "--output", file)
		r.wantSuccess(t)
		text, err := os.ReadFile(file)
		if err != nil || !strings.HasPrefix(strings.TrimSpace(string(text)), begins) && name != "a.txt" ||
			len(text) == 0 || r.stdout != "" {
			t.Errorf("%s: %v: %s, and %s", name, err, text, r.stdout)
		}
	}
}
