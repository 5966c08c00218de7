// SPDX-License-Identifier: Apache-2.0

package infiniband

import "github.com/ramjet-rdma/ramjet/internal/core/fabric"

// Running returns what is behind a fabric.
func (f *Fabric) Running() *fabric.Fabric { return f.running }
