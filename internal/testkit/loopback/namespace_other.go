// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package loopback

import "testing"

// InNamespace skips the test.
func InNamespace(t *testing.T, _ int) bool {
	t.Helper()
	t.Skip("network namespaces are of Linux")
	return false
}

// Beside makes the test parallel.
func Beside(t *testing.T) {
	t.Helper()
	t.Parallel()
}
