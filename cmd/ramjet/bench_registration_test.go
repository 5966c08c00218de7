// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/regbench"
)

func TestBenchRegistration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	svg, png := filepath.Join(dir, "a.svg"), filepath.Join(dir, "a.png")
	r := ramjetCmd(t, "bench", "registration", "-s", "4K,64K", "--runs", "2", "-D", "1ms", "--svg", svg, "--png", png)
	r.wantSuccess(t)
	for _, mode := range regbench.Modes {
		if strings.Count(r.stdout, " "+string(mode)+" ") != 2 {
			t.Errorf("%s is not there twice:\n%s", mode, r.stdout)
		}
	}
	if !strings.Contains(r.stdout, "Medians of 2 runs") || !strings.Contains(r.stdout, "64 KiB") {
		t.Errorf("%s", r.stdout)
	}
	r = ramjetCmd(t, "bench", "registration", "-s", "4K", "--runs", "1", "-D", "1ms")
	if r.wantSuccess(t); !strings.Contains(r.stdout, "\nFigures of one run. Times are") {
		t.Errorf("%s", r.stdout)
	}
	for file, begin := range map[string]string{svg: "<?xml", png: "\x89PNG"} {
		if b, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(b), begin) {
			t.Errorf("%s begins with %.10q, %v", file, b, err)
		}
	}
}

// TestBenchRegistrationKinds measures with devices of each kind, and with a device that is its own peer.
func TestBenchRegistrationKinds(t *testing.T) {
	devices := []string{testDevice(t)}
	if runtime.GOOS == "linux" { // where there is iWARP over TCP
		devices = append(devices, "iwarp:", "iwarps:")
	}
	for _, d := range devices {
		t.Run(d, func(t *testing.T) {
			r := ramjetCmd(t, "bench", "registration", "-s", "10000", "--runs", "1", "-D", "1ms", "--json", "-d", d)
			r.wantSuccess(t)
			var got struct {
				Devices []string
				Runs    int
				Results []regbench.Result
			}
			if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
				t.Fatalf("%v:\n%s", err, r.stdout)
			}
			if len(got.Devices) != 1 || !strings.HasPrefix(got.Devices[0], d) || got.Runs != 1 ||
				len(got.Results) != len(regbench.Modes) {
				t.Errorf("%+v", got)
			}
			for _, m := range got.Results {
				if m.Size != 10000 || m.Error == "" && (len(m.Runs) != 1 || m.Median.Whole <= 0) {
					t.Errorf("%+v", m)
				}
			}
		})
	}
}

func TestBenchRegistrationUsage(t *testing.T) {
	t.Parallel()
	for args, text := range map[string]string{
		"-s 4X":                    `"4X" is not a size`,
		"-s 4K,0":                  "1 byte or more, not 0",
		"--runs 0":                 "--runs is 0",
		"--chunk 0":                "--chunk is 0",
		"extra":                    `"extra" is one argument too many`,
		"--svg /does/not/exist/it": "--svg: ",
		"-d nothing:":              "nothing",
	} {
		t.Run(args, func(t *testing.T) {
			ramjetCmd(t, append([]string{"bench", "registration"}, strings.Fields(args)...)...).wantError(t,
				cli.ExitUsage, text)
		})
	}
}
