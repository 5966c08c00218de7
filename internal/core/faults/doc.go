// SPDX-License-Identifier: Apache-2.0

// Package faults is the faults that programs ask for: their text, when they strike, and the log of those that did.
// docs/faults.md has the language.
//
// A [Fault] is a line of text. [Parse] reads a text, and the log of an [Injector] is one: it can be the text of the
// next run. Devices ask the injector about each packet, call, work request and completion, and do what it says. It
// knows no clock: whoever asks says how much time has passed since the faults were set.
package faults
