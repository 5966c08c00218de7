// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package roce_test

import (
	"errors"
	"net/netip"
	"testing"
)

func inNamespace(t *testing.T) bool {
	t.Skip("network namespaces are of Linux")
	return false
}

func addAddress(netip.Addr) error { return errors.ErrUnsupported }

const namespaceLink = ""
