// SPDX-License-Identifier: Apache-2.0

package infiniband

import "github.com/ramjet-rdma/ramjet/internal/core/fabric"

// Running is the fabric as its operator has it.
func (f *Fabric) Running() *fabric.Fabric { return f.running }
