// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// What every command writes with --json says what wrote it, where and when, and which devices it is of.
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
				devices = len(head.Devices) > 0 // those of other tests' processes; TestStat looks at its own
			}
			if head.Version == "" || head.Host == "" || time.Since(head.Time).Abs() > time.Hour || devices != (len(head.Devices) > 0) {
				t.Errorf("%+v", head)
			}
		})
	}
	if text, err := encodeJSON(struct {
		A string `json:"a"`
	}{"<b>"}, "x:"); err != nil || !strings.HasPrefix(string(text), `{"version":"`) || !strings.HasSuffix(string(text), `"devices":["x:"],"a":"<b>"}`) {
		t.Errorf("%s, %v", text, err)
	}
	if text, err := encodeJSON(struct{}{}); err != nil || !json.Valid(text) {
		t.Errorf("%s, %v", text, err)
	}
	if _, err := encodeJSON([]int{1}); err == nil {
		t.Error("a list has no header")
	}
}
