// SPDX-License-Identifier: Apache-2.0

// Package calllog logs the calls that a program makes to libibverbs and librdmacm, or to packages verbs and cm: each
// with its arguments, result and duration. docs/log.md describes the log.
//
// A [Filter] selects calls, and a [Log] writes a line for each. Arguments are values: numbers, strings, [Symbol],
// [Hex], [Object], [Fields] and [List], each of which is written as text or as JSON. [Calls] is the table of the calls
// of C, with the names and types of their arguments. A [Reader] reads a log again.
//
// Several goroutines may use a [Log] at once. It numbers objects, and forgets them as the program destroys them.
package calllog
