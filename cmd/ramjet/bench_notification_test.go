// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/notification"
)

// needsSpare skips a test where there are no two devices of one machine from the start.
func needsSpare(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs more than one loopback address, which only Linux has from the start")
	}
}

func TestBenchNotificationUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                             "",
		"notifications":                "did you mean notification?",
		"notification more":            `"more" is one argument too many`,
		"notification --peers 1,none":  `"none" is not a number of peers: give 1 to 16384`,
		"notification --peers 0":       `"0" is not a number of peers`,
		"notification --peers 16385":   `"16385" is not a number of peers`,
		"notification --peers":         "flag needs an argument",
		"notification -n 0":            "--iters is 0",
		"notification -D 0":            `"0" is not a time`,
		"notification -D 1":            `"1" is not a time: give more than 0, with a unit`,
		"notification -D 1s -n 5":      "--duration and --iters exclude each other",
		"notification --stride 0":      "--stride is 0",
		"notification --stride 4097":   "stride is 4097: it can be 1 to 4096",
		"notification -d roce:::1":     "give one of roce, roce1, infiniband, iwarp",
		"notification --svg /no/where": "--svg",
		"notification --png /no/where": "--png",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			r := ramjetCmd(t, append([]string{"bench"}, strings.Fields(args)...)...)
			if want == "" {
				r.wantSuccess(t)
				return
			}
			r.wantError(t, cli.ExitUsage, want)
		})
	}
}

// The table has a row for each way with each number of peers, in their order, and its columns.
func TestBenchNotification(t *testing.T) {
	t.Parallel()
	needsSpare(t)
	for _, kind := range []string{"roce", "iwarps:"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			notificationRows(t, kind)
		})
	}
}

// notificationRows looks at the rows of one kind of device.
func notificationRows(t *testing.T, kind string) {
	r := ramjetCmd(t, "bench", "notification", "-d", kind, "--peers", "4,1", "-n", "20")
	r.wantSuccess(t)
	lines := strings.Split(strings.TrimRight(r.stdout, "\n"), "\n")
	if len(lines) != 3+2*3 || !strings.HasPrefix(lines[0],
		"RC WRITE of 1 byte from "+strings.TrimSuffix(kind, ":")+":127.") ||
		!strings.HasPrefix(lines[2], "#peers ") {
		t.Fatalf("%s", r.stdout)
	}
	for i, l := range lines[3:] {
		if len(l) > 80 {
			t.Errorf("%d columns: %s", len(l), l)
		}
		way := notification.Ways[i%3]
		rest, ok := strings.CutPrefix(strings.TrimSpace(l), []string{"1", "4"}[i/3])
		values, named := strings.CutPrefix(strings.TrimSpace(rest), way.String())
		if f := strings.Fields(values); !ok || !named || len(f) != 6 || (f[2] == "-") != (way == notification.Event) ||
			(f[4] == "-") != (way != notification.Bytes) || !strings.HasSuffix(f[5], "%") {
			t.Errorf("row %d: %s", i, l)
		}
	}
}

// Files get the drawings of the results, and JSON all of them.
func TestBenchNotificationFiles(t *testing.T) {
	t.Parallel()
	needsSpare(t)
	svg, picture := filepath.Join(t.TempDir(), "a.svg"), filepath.Join(t.TempDir(), "a.png")
	if err := os.WriteFile(svg, bytes.Repeat([]byte("longer than any drawing "), 1<<16), 0o666); err != nil {
		t.Fatal(err)
	}
	r := ramjetCmd(t, "bench", "notification", "--peers", "1,16", "-D", "10ms", "--stride", "1", "--json", "--svg", svg,
		"--png", picture)
	r.wantSuccess(t)
	var got struct {
		Client, Target string
		Config         struct {
			Peers    []int `json:"peers"`
			Duration int64 `json:"duration_ns"`
			Stride   int   `json:"stride_bytes"`
		}
		Results []struct {
			Peers int
			Way   string
			Delay map[string]float64
			Look  *struct {
				P50 float64 `json:"p50_ns"`
				P99 float64 `json:"p99_ns"`
			}
		}
	}
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
		t.Fatalf("%v: %s", err, r.stdout)
	}
	if !slices.Equal(got.Config.Peers, []int{1, 16}) || got.Config.Duration != 10_000_000 || got.Config.Stride != 1 ||
		got.Client == got.Target || len(got.Results) != 6 {
		t.Errorf("%s", r.stdout)
	}
	for _, res := range got.Results {
		for _, k := range []string{"count", "min_ns", "p50_ns", "p99_ns", "max_ns", "mean_ns"} {
			if res.Delay[k] <= 0 {
				t.Errorf("%d peers, %s: %s is %v", res.Peers, res.Way, k, res.Delay[k])
			}
		}
		if (res.Look == nil) != (res.Way == "event") || res.Look != nil && res.Look.P50 <= 0 {
			t.Errorf("%d peers, %s: look %+v", res.Peers, res.Way, res.Look)
		}
	}
	text, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	dec := xml.NewDecoder(bytes.NewReader(text))
	for err == nil {
		_, err = dec.Token()
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("SVG: %v", err)
	}
	for _, w := range notification.Ways {
		if !strings.Contains(string(text), w.String()) {
			t.Errorf("the SVG has no line %q", w)
		}
	}
	f, err := os.Open(picture)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := png.Decode(f); err != nil {
		t.Error(err)
	}
}

// An interrupted measurement ends at once, and leaves no empty files.
func TestBenchNotificationInterrupted(t *testing.T) {
	t.Parallel()
	needsSpare(t)
	dir := t.TempDir()
	r := startReady(t, "#peers", "bench", "notification", "-D", "24h", "--svg", filepath.Join(dir, "a.svg"), "--png",
		filepath.Join(dir, "a.png"))
	r.interrupt()
	if res := r.wait(); res.status != cli.ExitInterrupted || res.stderr != "ramjet bench notification: interrupted\n" {
		t.Errorf("status %d: %s", res.status, res.stderr)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}
