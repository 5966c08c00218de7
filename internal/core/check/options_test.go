// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strings"
	"testing"
)

func TestParseOptions(t *testing.T) {
	o, err := ParseOptions("\tlog=a.%p  off=leak,race\texitcode=3 protect")
	if err != nil {
		t.Fatal(err)
	}
	if o.Log != "a.%p" || o.ExitCode != 3 || len(o.Off) != 2 || !o.Off[Leak] || !o.Off[Race] || !o.Protect {
		t.Fatalf("%+v", o)
	}
	for text, want := range map[string]string{
		"log=":               `column 1: "log=": expected log=FILE`,
		"off=leak,raze":      `column 1: "off=leak,raze": there is no rule "raze": did you mean race?`,
		"off=":               `column 1: "off=": expected off=RULE,RULE, without blanks`,
		"off=leak, race":     `column 1: "off=leak,": expected off=RULE,RULE, without blanks`,
		"off=leak exitcode=": `column 10: "exitcode=": expected exitcode=N, from 0 to 255`,
		"exitcode=256":       "from 0 to 255",
		"of=leak":            "did you mean off?",
		"protect=1":          `column 1: "protect=1": expected protect, without a value`,
		"protec":             "did you mean protect?",
	} {
		if _, err := ParseOptions(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzParseOptions(f *testing.F) {
	for _, text := range []string{"", "1", "log=x off=leak exitcode=0", "off=leak,", "\t", "é=", "off=leak\toff=race"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := ParseOptions(text)
		if (o == nil) == (err == nil) {
			t.Fatalf("%q: %v, %v", text, o, err)
		}
		if err != nil {
			return
		}
		for r := range o.Off {
			if find(r) == nil {
				t.Fatalf("%q: a rule %q", text, r)
			}
		}
	})
}
