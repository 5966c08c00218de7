// SPDX-License-Identifier: Apache-2.0

package rdmatest

import (
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/core/check"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Check has mistakes in the use of the devices that hosts open from now on fail the test, each with its report: memory
// that changes while it is posted, queues that hardware would not hold, accesses without order, also between hosts.
// options are the options of [ramjet.WithChecks], such as "off=race"; log and exitcode mean nothing here. docs/check.md
// has the rules. Of a process that is killed nothing more is reported.
//
// It uses a world's time as the rest does: the same seed has the same reports, unless Go stops a goroutine in its
// midst, as it may on a busy machine.
func (w *World) Check(options string) {
	w.Helper()
	w.checker = newChecker(w, options)
}

// CheckedPair is [PairOf] with devices that are checked as by [World.Check].
func CheckedPair(t testing.TB, kind, options string) (a, b *verbs.Device) {
	t.Helper()
	c := newChecker(t, options)
	return kindPair(t, kind, func(d *verbs.Device) { c.Watch(d) })
}

// CheckedFabricPair is [FabricPair] with devices that are checked as by [World.Check].
func CheckedFabricPair(t testing.TB, options string) (a, b *verbs.Device) {
	t.Helper()
	c := newChecker(t, options)
	return fabricPair(t, func(d *verbs.Device) { c.Watch(d) })
}

// newChecker makes a checker whose findings fail a test.
func newChecker(t testing.TB, options string) *check.Checker {
	t.Helper()
	o, err := check.ParseOptions(options)
	if err != nil {
		t.Fatalf("rdmatest: options of the checker: %v", err)
	}
	return check.New(findings{t}, o)
}

// findings has each report fail a test.
type findings struct{ testing.TB }

func (f findings) Write(report []byte) (int, error) {
	f.Error(strings.Trim(string(report), "=\n"))
	return len(report), nil
}
