// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestRemoteForms(t *testing.T) {
	r := Remote{Addr: 0x7f6a1c000000, Key: 0x1a2b}
	if got, want := r.String(), "0x7f6a1c000000:0x1a2b"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	b, err := json.Marshal(map[string]Remote{"table": r})
	if err != nil || string(b) != `{"table":"0x7f6a1c000000:0x1a2b"}` {
		t.Errorf("%s, %v", b, err)
	}
	b, _ = r.MarshalBinary()
	if want := []byte{0, 0, 0x7f, 0x6a, 0x1c, 0, 0, 0, 0, 0, 0x1a, 0x2b}; !bytes.Equal(b, want) ||
		len(b) != RemoteSize {
		t.Errorf("%x, want %x", b, want)
	}
	for _, bad := range []string{"", ":", "1", "1:", ":1", "1:2:3", "0x10000000000000000:1", "1:0x100000000", "-1:2",
		"a:b", "1: 2"} {
		kept := r
		if err := kept.UnmarshalText([]byte(bad)); err == nil || kept != r {
			t.Errorf("%q is %v, %v", bad, kept, err)
		}
	}
	var kept Remote
	for _, n := range []int{0, RemoteSize - 1, RemoteSize + 1} {
		if err := kept.UnmarshalBinary(make([]byte, n)); err == nil {
			t.Errorf("%d bytes are %v", n, kept)
		}
	}
}

func FuzzRemote(f *testing.F) {
	f.Add("0x7f6a1c000000:0x1a2b", []byte("123456789012"))
	f.Add("12:0b11", []byte{})
	f.Fuzz(func(t *testing.T, text string, b []byte) {
		var r, again Remote
		if r.UnmarshalText([]byte(text)) == nil {
			if err := again.UnmarshalText([]byte(r.String())); err != nil || again != r {
				t.Errorf("%q: %v is %v, %v", text, r, again, err)
			}
		}
		if r.UnmarshalBinary(b) == nil {
			if out, err := r.MarshalBinary(); err != nil || !bytes.Equal(out, b) {
				t.Errorf("%x is %x, %v", b, out, err)
			}
		}
	})
}
