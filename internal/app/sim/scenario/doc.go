// SPDX-License-Identifier: Apache-2.0

// Package scenario reads the files of `ramjet sim`: what is simulated, in YAML. A file has what differs
// from the defaults. Unknown keys, and values out of their limits, are errors that say the line and
// what was expected.
//
//	file.go    what a file has, and its defaults
//	decode.go  from YAML
//	print.go   to YAML, with comments
//	values.go  rates, sizes, times, words
//	build.go   topologies, flows and a configuration of package sim
package scenario
