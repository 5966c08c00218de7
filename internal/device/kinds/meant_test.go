// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"net"
	"strings"
	"testing"
)

// The error for a wrong device name has the name that was meant.
func TestMeant(t *testing.T) {
	want := map[string]string{
		"192.0.2.7": "did you mean roce:192.0.2.7?", "192.0.2.7:4791": "did you mean roce:192.0.2.7?",
		"2001:db8::7": "did you mean roce:2001:db8::7?", "[2001:db8::7]:1": "did you mean roce:2001:db8::7?",
		"rcoe:192.0.2.7": "did you mean roce:192.0.2.7?", "shmm:": "did you mean shm:?",
		"iwarp": "did you mean iwarp:?", "Iwarps:": "did you mean iwarps:?",
		"mlx5_4711": "kernel:mlx5_4711 would be a device of the kernel", "nothing": "such as roce:127.0.0.1",
		"nothing:x": "there are roce",
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback != 0 && i.Flags&net.FlagUp != 0 {
			want[i.Name] = "at the address of the interface " + i.Name
		}
	}
	for name, text := range want {
		if _, err := Parse(name); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v, want %q", name, err, text)
		}
	}
	for _, name := range []string{"roce:192.0.2.7", "shm:", "kernel:mlx5_0"} {
		if _, err := Parse(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}
