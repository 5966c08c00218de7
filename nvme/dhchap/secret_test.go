// SPDX-License-Identifier: Apache-2.0

package dhchap

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// The example of the specification, and secrets that nvme-cli has made.
func TestParseSecret(t *testing.T) {
	for _, text := range []string{
		"DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:",
		"DHHC-1:03:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:",
		"DHHC-1:01:l29rbM7waP9bX4gjmx0e6S6eK5sDb7a5c0jZJG2XxcwvDbY0:",
		"DHHC-1:00:TATezKzRaxSMwvxnSwtvCD9XMxK9tM2bZLkjkM2qeu/d+5VC:",
	} {
		s, err := ParseSecret(text)
		if err != nil || s.Text() != text {
			t.Errorf("%s: %v, %s", text, err, s.Text())
		}
		for _, shown := range []string{fmt.Sprint(s), fmt.Sprintf("%+v %#v %s", s, s, s)} {
			if strings.Contains(shown, text[10:20]) || strings.Contains(shown, s.key) {
				t.Errorf("%s is shown", shown)
			}
		}
	}
	for _, c := range []struct{ text, says string }{
		{"", "gen-dhchap-key"}, {"secret", "gen-dhchap-key"}, {"DHHC-1:00", "gen-dhchap-key"},
		{"DHHC-1:04:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:", "hash"},
		{"DHHC-1:1:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:", "hash"},
		{"DHHC-1:00:ja6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:", "CRC"},
		{"DHHC-1:00:Jc/My1o0qtLCWRp+sHhAVafdfaS7YQOMYhk9zSmlatobqB8C:", "CRC"}, // the wrong key of blktests
		{"DHHC-1:00:ia6z:", "bytes"}, {"DHHC-1:00::", "bytes"}, {"DHHC-1:00:?:", "base64"},
	} {
		if _, err := ParseSecret(c.text); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.text, err)
		}
	}
	for _, size := range []int{32, 48, 64} {
		s, err := NewSecret(SHA384, size)
		again, err2 := ParseSecret(s.Text())
		if err != nil || err2 != nil || again != s {
			t.Error(size, err, err2)
		}
	}
	if _, err := NewSecret(4, 32); err == nil {
		t.Error("a fourth hash")
	}
	if _, err := NewSecret(0, 31); err == nil {
		t.Error("31 bytes")
	}
}

// Responses, as another implementation of HMAC has computed them from the specification's formula.
func TestResponse(t *testing.T) {
	want := map[string]string{
		"00 SHA-256": "a5dfa8f3fc5a65ecfc14238903b18b06", "00 SHA-384": "6d0cd926b93881f0a267761a8a23cf26",
		"00 SHA-512": "bc8ae0a4287783b4d4ca5b24d7ba5905", "01 SHA-256": "6a8a2b4318de872d826fbe343dcc5794",
		"01 SHA-384": "b1037274fe7e00f92be17108031b0410", "01 SHA-512": "1ec85210ccc214878e42257bb7c27d17",
		"02 SHA-256": "47a58a3d9cefc898a3750e776e5bc2ad", "02 SHA-384": "757050eeaeeb7bde58cbd78279473738",
		"02 SHA-512": "a189b1d4d1e0b9186e76ca55b07f2acd", "03 SHA-256": "3964e70fe4cd6dba652134ab1b4f9a89",
		"03 SHA-384": "7abc2f611254a40ce0563475e7481412", "03 SHA-512": "244d169fe091a9561e89903de43a52a8",
	}
	i := Identities{Host: "nqn.2014-08.org.nvmexpress:uuid:4c4c4544-005a-3710-8051-b1c04f445732",
		Subsystem: "nqn.2026-01.org.example:disks"}
	for transform := range SHA512 + 1 {
		i.HostSecret = secretOf(t, transform)
		for hash := SHA256; hash <= SHA512; hash++ {
			var dh []byte
			if hash == SHA384 {
				dh = bytes.Repeat([]byte{7}, 256)
			}
			got := i.response(false, hash, dh, counting(hash.Size()), 0x01020304, 0x0506)
			name := fmt.Sprintf("%02d %v", transform, hash)
			if hex.EncodeToString(got[:16]) != want[name] || len(got) != hash.Size() {
				t.Errorf("%s: %x", name, got)
			}
		}
	}
	i.ControllerSecret = secretOf(t, SHA256)
	if got := i.response(true, SHA256, nil, counting(32), 0x01020304, 0x0506); hex.EncodeToString(got[:16]) !=
		"640bd41dcd9f09cc86e8e6bf6ca9a094" {
		t.Errorf("the controller's: %x", got)
	}
}

func counting(n int) (b []byte) {
	for i := range n {
		b = append(b, byte(i))
	}
	return b
}

// secretOf returns the key of the specification's example.
func secretOf(t testing.TB, transform Hash) Secret {
	t.Helper()
	s, err := ParseSecret(fmt.Sprintf("DHHC-1:%02d:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:", transform))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Any text is a secret or is refused, and a secret's text is read as the same.
func FuzzParseSecret(f *testing.F) {
	f.Add("")
	f.Add("D")
	f.Add("DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ParseSecret(text); err == nil {
			if again, err := ParseSecret(s.Text()); err != nil || again != s {
				t.Error(err)
			}
		}
	})
}
