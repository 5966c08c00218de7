// SPDX-License-Identifier: Apache-2.0

package pingpong

import (
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// The texts below were sent by ibv_rc_pingpong's format, "%04x:%06x:%06x:%s" and a zero byte.
func TestAddress(t *testing.T) {
	ep := verbs.Endpoint{QPN: 0x11, PSN: 0xabcdef, GID: verbs.GID{10: 0xff, 11: 0xff, 12: 192, 13: 0, 14: 2, 15: 7}}
	const text = "0000:000011:abcdef:00000000000000000000ffffc0000207\x00"
	if got := string(appendAddress(nil, ep)); got != text {
		t.Errorf("%q, want %q", got, text)
	}
	if got, err := parseAddress([]byte(text)); err != nil || got != ep {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", text[1:], text[:len(text)-1], strings.Replace(text, ":", ";", 1),
		strings.Replace(text, "ab", "xy", 1),
		strings.Replace(text, "0000:", "000+:", 1), strings.ReplaceAll(text, "ff", "-1")} {
		if got, err := parseAddress([]byte(bad)); err == nil {
			t.Errorf("%q is taken as %+v", bad, got)
		}
	}
}

func FuzzAddress(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add([]byte("0000:000011:abcdef:00000000000000000000ffffc0000207\x00"))
	f.Add([]byte("0001:ffffff:000000:fe80000000000000505400fffe123456\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		ep, err := parseAddress(b)
		if err != nil {
			return
		}
		if again, err := parseAddress(appendAddress(nil, ep)); err != nil || again != ep {
			t.Errorf("%q is %+v, and that is %+v, %v", b, ep, again, err)
		}
	})
}
