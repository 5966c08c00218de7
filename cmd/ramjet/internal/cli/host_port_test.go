// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"
)

func TestHostPort(t *testing.T) {
	for text, want := range map[string]struct {
		host string
		port uint16
	}{
		"": {"", 0}, "a": {"a", 0}, "a:7": {"a", 7}, "192.0.2.7": {"192.0.2.7", 0},
		"192.0.2.7:65535": {"192.0.2.7", 65535}, "192.0.2.7:65536": {"192.0.2.7:65536", 0},
		"2001:db8::7": {"2001:db8::7", 0}, "[2001:db8::7]": {"2001:db8::7", 0}, "[2001:db8::7]:80": {"2001:db8::7", 80},
		"a:b": {"a:b", 0}, ":7": {":7", 0}, "a:0": {"a:0", 0}, "a:": {"a:", 0},
	} {
		if host, port := HostPort(text); host != want.host || port != want.port {
			t.Errorf("%q: %q, %d", text, host, port)
		}
	}
	port := uint16(1)
	if host, err := TakePort("a:7", &port, false); err != nil || host != "a" || port != 7 {
		t.Error(host, port, err)
	}
	if _, err := TakePort("a:7", &port, true); err != nil {
		t.Error(err)
	}
	if _, err := TakePort("a:8", &port, true); err == nil || !strings.Contains(err.Error(), "give one of them") {
		t.Error(err)
	}
}
