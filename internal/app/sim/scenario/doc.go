// SPDX-License-Identifier: Apache-2.0

// Package scenario reads the files of `ramjet sim`: simulations, in YAML. A file has the values that differ
// from the defaults. Unknown keys, and values out of their limits, are errors that have the line and the
// expected value.
//
//	file.go    the values of a file, and their defaults
//	decode.go  from YAML
//	print.go   to YAML, with comments
//	values.go  rates, sizes, times, words
//	build.go   topologies, flows and a configuration of package sim
package scenario
