// SPDX-License-Identifier: Apache-2.0

// Package conformance is the suite that every verbs device must pass: what package verbs
// promises, tested through its API alone. A device package calls [Run] from a test.
//
// Tests wait for what must happen with a bound that no working machine reaches, and never
// assert how long something took. What a device cannot do is named in its [Fixture]; the
// tests of it are skipped with the reason.
package conformance
