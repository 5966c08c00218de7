// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// The JSON of every command has the program, the host, the time, and the devices that it is about.
func TestJSONHeader(t *testing.T) {
	t.Parallel()
	device := testDevice(t)
	for args, devices := range map[string]bool{
		"devices --json " + device:                        true,
		"doctor --json":                                   false,
		"stat --json":                                     false,
		"explain --json IBV_WC_RNR_RETRY_EXC_ERR":         false,
		"ladder --json " + rxeCapture:                     false,
		"fabric show --star 2 --json":                     false,
		"fabric show --star 2 host-1 --json":              false,
		"perf send lat --loopback -n 10 --json":           true,
		"bench registration -s 4K --runs 1 -D 1ms --json": true,
		"bench notification --peers 1 -n 10 --json":       true,
		"demo --json --pcap /dev/null":                    true,
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			r := ramjetCmd(t, strings.Fields(args)...)
			var head struct {
				Version, Host string
				Time          time.Time
				Devices       []any
			}
			if err := json.Unmarshal([]byte(r.stdout), &head); err != nil {
				t.Fatalf("%v: %+v", err, r)
			}
			if strings.HasPrefix(args, "stat ") {
				devices = len(head.Devices) > 0 // of other tests' processes; TestStat looks at its own
			}
			if head.Version == "" || head.Host == "" || time.Since(head.Time).Abs() > time.Hour ||
				devices != (len(head.Devices) > 0) {
				t.Errorf("%+v", head)
			}
		})
	}
}

// A field that two commands have in JSON has the same unit in both: its name but for the unit appears with one unit
// only. Times are in nanoseconds: every duration's name says so. perftest's own names, which end in usec, have their
// meaning there.
func TestJSONUnits(t *testing.T) {
	units := regexp.MustCompile(`_(ns|us|usec|ms|s|sec|seconds|bytes|kb|kib|mb|mib|bits|bps|mbps|gbps)$`)
	tag := regexp.MustCompile("(?m)^.*json:\"([a-z0-9_]+).*$")
	seen := map[string]string{}
	for _, file := range sources(t, "*.go", "../../internal/app/*/*.go", "../../internal/system/rdmasys/*.go") {
		if strings.Contains(file, "/dash/") { // the page's own
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range tag.FindAllStringSubmatch(string(text), -1) {
			unit := units.FindStringSubmatch(m[1])
			if strings.Contains(m[0], "time.Duration") && (unit == nil || unit[1] != "ns") {
				t.Errorf("%s: %s is a duration: its name has to end in _ns", file, m[1])
			}
			perftest := strings.HasPrefix(file, "perf_")
			if unit == nil || unit[1] == "usec" && perftest || strings.HasSuffix(m[1], "_per_second") {
				continue
			}
			switch unit[1] {
			case "us", "usec", "ms", "s", "sec", "seconds":
				t.Errorf("%s: %s is in %s: times are in ns", file, m[1], unit[1])
			}
			name := strings.TrimSuffix(m[1], unit[0])
			if is := seen[name]; is != "" && is != unit[1] {
				t.Errorf("%s: %s is in %s, and elsewhere in %s", file, name, unit[1], is)
			}
			seen[name] = unit[1]
		}
	}
	if len(seen) < 20 {
		t.Errorf("%d names with units: %v", len(seen), seen)
	}
}

// sources returns the files that patterns name, but for tests.
func sources(t *testing.T, patterns ...string) (files []string) {
	t.Helper()
	for _, p := range patterns {
		found, err := filepath.Glob(p)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	return slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
}
