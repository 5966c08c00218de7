// SPDX-License-Identifier: Apache-2.0

// Package testrun decides which tests a run includes, and how many tests it runs at once.
//
// `go test ./...` is the quick run: some minutes on two processors. Tests that have to be real and
// long, such as timeouts of the kernel, processes that are killed in the middle of a large copy, C
// programs or tables of simulated paths, are left to ./check, which sets RAMJET_LONG.
package testrun

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
)

// variable is set in the environment of a run that includes the long tests.
const variable = "RAMJET_LONG"

// Long reports whether the run includes the long tests.
func Long() bool {
	long, err := strconv.ParseBool(os.Getenv(variable))
	if err != nil && os.Getenv(variable) != "" {
		panic(fmt.Sprintf("%s is %q: give 1 or 0", variable, os.Getenv(variable)))
	}
	return long
}

// SkipUnlessLong skips a test, or its rest, unless the run includes the long ones. why is the
// reason why it takes long.
func SkipUnlessLong(t testing.TB, why string) {
	t.Helper()
	if !Long() {
		t.Skipf("%s: run with %s=1, as ./check does", why, variable)
	}
}

// atOnce is how many parallel tests run at once in a package whose tests wait.
const atOnce = 16

// Waits is called by the TestMain of a package whose parallel tests wait for timeouts rather
// than compute: more of them run at once than there are processors, unless -parallel says how many.
func Waits() {
	flag.Parse()
	const parallel = "test.parallel"
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == parallel })
	if given {
		return
	}
	if err := flag.Set(parallel, strconv.Itoa(atOnce)); err != nil {
		panic(err)
	}
}
