// SPDX-License-Identifier: Apache-2.0

package testrun

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

func TestMain(m *testing.M) {
	Waits()
	os.Exit(m.Run())
}

// TestWaits has as many parallel tests as run at once wait for each other.
func TestWaits(t *testing.T) {
	n := atOnce
	if f := flag.Lookup("test.parallel"); f.Value.String() != strconv.Itoa(atOnce) {
		t.Skip("-parallel=" + f.Value.String() + " is given")
	}
	var all sync.WaitGroup
	all.Add(n)
	for i := range n {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			all.Done()
			all.Wait()
		})
	}
}

func TestSkipUnlessLong(t *testing.T) {
	for value, want := range map[string]bool{"": false, "0": false, "1": true} {
		t.Setenv(variable, value)
		r := &recorder{TB: t}
		SkipUnlessLong(r, "waits for a minute")
		if ran := r.said == ""; ran != want || Long() != want {
			t.Errorf("%s=%q: the test runs: %v, want %v", variable, value, ran, want)
		}
		if !want && (!strings.HasPrefix(r.said, "waits for a minute: ") || !strings.Contains(r.said, variable+"=1")) {
			t.Errorf("skipped with %q", r.said)
		}
	}
	t.Setenv(variable, "often")
	defer func() {
		if recover() == nil {
			t.Errorf("%s=often is taken", variable)
		}
	}()
	Long()
}

// recorder records why a test was skipped, and goes on.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Helper() {}

func (r *recorder) Skipf(format string, args ...any) { r.said = fmt.Sprintf(format, args...) }
