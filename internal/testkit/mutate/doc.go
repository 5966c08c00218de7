// SPDX-License-Identifier: Apache-2.0

// Command mutate changes the engines a little, one place at a time, and sees whether a test notices. It
// works on copies: the tree stays as it is.
//
//	go run ./internal/testkit/mutate -n 200            # draw 200 mutants, and test them
//	go run ./internal/testkit/mutate -n 200 -report    # results so far
//	go run ./internal/testkit/mutate -n 200 -again     # test survivors once more
//
// A mutant is tested by the tests of its own package first, then by the simulation, then by the
// conformance suite. The first that fails kills it. Results are kept in a file, so a run that was
// interrupted goes on where it was. docs/simulation.md has the latest score and the survivors.
package main
