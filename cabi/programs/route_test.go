// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package programs

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// librdmacm's route has the values of the administrator's path record: GIDs, LIDs, service level, MTU.
func TestInfiniBandRoute(t *testing.T) {
	dir := need(t, "gcc")
	runFabric(t)
	program := filepath.Join(t.TempDir(), "route")
	if out, err := exec.Command("gcc", "-O1", "-Wall", "-Werror", "-o", program, "testdata/subnet/route.c", "-lrdmacm",
		"-libverbs").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out := onAdapter(t, ramjet(t)+" run --libs "+dir+" -- "+program+" 198.18.0.3")
	for _, want := range []string{
		`(?m)^sgid (fe80::\S+)$(?s:.*)^path sgid fe80::`,
		`(?m)^dgid fe80::\S+$`,
		`(?m)^paths before the route is resolved: 0$`,
		`(?m)^slid 2 dlid 4 sl 0 pkey 0xffff mtu 5$`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
}
