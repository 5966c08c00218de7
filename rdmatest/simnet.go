// SPDX-License-Identifier: Apache-2.0

package rdmatest

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/simnet"
)

// The simulation's own tests need more than users do.
func init() {
	simnet.NetOf = func(world any) *simnet.Net { return world.(*World).net }
	simnet.HostOf = func(host any) *simnet.Host { return host.(*Host).sim }
	simnet.Play = func(t *testing.T, seed uint64, log *simnet.Log, test any) []string {
		defer steady()()
		return (&player{t: t, test: test.(func(*World))}).play(seed, all, log).failures
	}
}
