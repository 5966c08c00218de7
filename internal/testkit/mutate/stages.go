// SPDX-License-Identifier: Apache-2.0

package main

import "strconv"

// stage is one set of tests.
type stage struct {
	name string // as reports have it
	pkg  string // the folder of the tests
	args []string
}

const (
	scripts     = "scripts"
	simulation  = "simulation"
	conformance = "conformance"
)

const simnet = "internal/testkit/simnet"

// stagesOf returns the tests that a mutant of a package has to pass, the cheapest first.
func stagesOf(pkg string, seeds int) []stage {
	own := stage{scripts, pkg, nil}
	sim := func(args ...string) stage {
		args = append([]string{"-test.run=^Test(Seeds|Stats|RoundTrip|CreditsOfLostPackets)$",
			"-rdmatest.seeds=" + strconv.Itoa(seeds)}, args...)
		return stage{simulation, simnet, args}
	}
	suite := func(kind string) stage {
		return stage{conformance, simnet, []string{"-test.run=^TestConformance" + kind + "$"}}
	}
	switch pkg {
	case "internal/engine/ibta":
		return []stage{own, sim(), suite("RoCE")}
	case "internal/engine/rdmap":
		return []stage{own, sim(), suite("IWARP")}
	case "internal/engine/local": // real memory has no virtual time
		return []stage{own, {conformance, "shm", []string{"-test.run=^TestConformance"}}}
	case "internal/engine/ibcm":
		return []stage{own, sim("-scenario=cm"), suite("RoCE")}
	case "internal/engine/link":
		return []stage{own, sim("-on=infiniband"), suite("InfiniBand")}
	case "internal/engine/rsocket":
		return []stage{own, sim("-scenario=rnet")}
	}
	return []stage{own}
}

// Verdicts on a mutant.
const (
	killed      = "killed"
	survived    = "survived"
	timedOut    = "timed out"
	notCompiled = "did not compile"
)
