// SPDX-License-Identifier: Apache-2.0

package packetdev

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/memhub"
)

// side is a device on a hub with one queue pair.
type side struct {
	memhub.Side
	soft *Device
}

// open makes the side's device of a port. Its region has n bytes.
func (s *side) open(t *testing.T, port Port, n int) {
	t.Helper()
	s.soft = New("test", "test", 1, port)
	s.Open(t, s.soft, n)
}

func newSide(t *testing.T, h *memhub.Hub) *side {
	t.Helper()
	s := &side{}
	s.Port = h.NewPort()
	s.open(t, s.Port, 1<<20)
	s.AddQP()
	return s
}

// newPair makes two connected devices.
func newPair(t *testing.T) (a, b *side) {
	t.Helper()
	var h memhub.Hub
	a, b = newSide(t, &h), newSide(t, &h)
	a.Connect(&b.Side)
	return a, b
}
