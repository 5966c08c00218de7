// SPDX-License-Identifier: Apache-2.0

// Package faults has the faults that programs ask for: their text, when they strike, and the log of faults that did.
// docs/faults.md has the language.
//
// A [Fault] is a line of text. [Parse] reads a text, and the log of an [Injector] is one: it can be the text of the
// next run. Devices ask the injector about each packet, call, work request and completion, and follow its verdict. It
// has no clock: the caller passes the time since the faults were set.
package faults
