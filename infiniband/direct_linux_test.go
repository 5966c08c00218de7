// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import "testing"

// Tools at the manager's own port are answered.
func TestDirectTools(t *testing.T) {
	f := direct(t)
	for _, home := range []string{"one", "two"} {
		x := newTools(t, f, "ibnetdiscover", "saquery", "smpquery")
		x.home = home
		x.checkDiscovery(f)
		for _, command := range [][]string{{"saquery", "-p"}, {"smpquery", "-D", "nodedesc", "0,1"},
			{"smpquery", "nodedesc", "1"}, {"sminfo"}} {
			x.run(command[0], command[1:]...)
		}
	}
}
