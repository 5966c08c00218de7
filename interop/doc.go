// SPDX-License-Identifier: Apache-2.0

// Package interop tests Ramjet against the Linux kernel's rxe, which runs in a virtual
// machine on a private link. It has no code of its own but tests, under the build tag
// "interop"; ./check interop boots the machine and runs them. README.md tells more.
package interop
