// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzFaultRequest: a request for faults is read as it was written, or refused.
func FuzzFaultRequest(f *testing.F) {
	for _, s := range []string{"", "s", "show\n\n", "set\nroce\nloss 1%", "set\n\nlos"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ReadFaultRequest(bytes.NewReader(b))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if r.Write(&again); !bytes.Equal(again.Bytes(), b) {
			t.Fatalf("%q is written as %q", b, &again)
		}
		var reply bytes.Buffer
		if err := r.Answer(&reply); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadFaultReply(&reply); err != nil && strings.Contains(err.Error(), "\x1b") {
			t.Fatalf("%q", err)
		}
	})
}

// TestFaultReply: anything else is no reply.
func TestFaultReply(t *testing.T) {
	for _, s := range []string{"", "d", "done", "other\n", "done\n", "done\n[{", `done\n{"name":1}`} {
		if _, err := ReadFaultReply(strings.NewReader(s)); err == nil {
			t.Errorf("%q is a reply", s)
		}
	}
	reply := `[{"name":"roce:\u001b[1m","faults":[{"fault":"loss 1%\n","struck":1,"selected":7,"unit":"packets"}]}]`
	got, err := ReadFaultReply(strings.NewReader("done\n" + reply))
	if err != nil || len(got) != 1 || len(got[0].Faults) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	text := got[0].Name + got[0].Faults[0].String()
	if strings.ContainsAny(text, "\x1b\n") || !strings.Contains(text, "struck 1 of 7 packets") {
		t.Errorf("%q", text)
	}
}
