// SPDX-License-Identifier: Apache-2.0

package fabric

import "github.com/ramjet-rdma/ramjet/internal/core/clock"

type ManagerOptions struct{}
type manager struct{}

func newManager(f *Fabric, o *ManagerOptions) *manager { return nil }
func (m *manager) run(now clock.Time) bool             { return false }
func (m *manager) deadline() clock.Time                { return 0 }
func (m *manager) receive(*member)                     {}
