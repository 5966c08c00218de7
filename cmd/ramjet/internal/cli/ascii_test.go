// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"os"
	"strings"
	"testing"
)

// On a terminal without UTF-8 every character is one of ASCII, and none of a ladder becomes a question mark.
// A peer's text stays as it is.
func TestOutputInASCII(t *testing.T) {
	const drawn = " 0.000000  ├── CM REQ  41 µs ──▶│\n"
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const utf8 = "41.2 µs\n"
	go func() {
		o := &Output{File: w, ASCII: true}
		for _, s := range []string{drawn, utf8} {
			if n, err := io.WriteString(o, s); n != len(s) || err != nil {
				t.Errorf("%d of %d bytes, %v", n, len(s), err)
			}
		}
		io.WriteString(Verbatim(o), utf8)
		w.Close()
	}()
	all, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	text, asItIs := strings.CutSuffix(string(all), utf8)
	if !asItIs || !strings.HasSuffix(text, "\n41.2 us\n") || !strings.Contains(text, "|-- CM REQ  41 us --") ||
		strings.Contains(text, "?") {
		t.Errorf("%q", all)
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return r > '~' }); i >= 0 {
		t.Errorf("%q", text[i:])
	}
}

func TestLocaleHasUTF8(t *testing.T) {
	for _, c := range []struct {
		all, ctype, lang string
		want             bool
	}{
		{"", "", "", true}, {"C", "", "en_US.UTF-8", false}, {"", "C.utf8", "C", true}, {"", "", "POSIX", false},
		{"", "", "de_DE.UTF-8", true},
	} {
		t.Setenv("LC_ALL", c.all)
		t.Setenv("LC_CTYPE", c.ctype)
		t.Setenv("LANG", c.lang)
		if LocaleHasUTF8() != c.want {
			t.Errorf("%+v", c)
		}
	}
}
