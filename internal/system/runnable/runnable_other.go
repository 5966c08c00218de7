// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package runnable

// Crowded returns false: the system does not say.
func Crowded() bool { return false }
