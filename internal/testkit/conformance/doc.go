// SPDX-License-Identifier: Apache-2.0

// Package conformance is the suite that every verbs device must pass: the promises of package
// verbs, tested through its API alone. A device package calls [Run] from a test.
//
// Tests wait for events that must come with a bound that no working machine reaches, and never
// assert how long something took. A device's [Fixture] names the abilities that it lacks; the
// tests of them are skipped with the reason.
package conformance
