// SPDX-License-Identifier: Apache-2.0

package infiniband

import "github.com/ramjet-rdma/ramjet/internal/core/fabric"

// Running returns what is behind a fabric.
func (f *Fabric) Running() *fabric.Fabric { return f.running }

// LinkOverhead is what a device believes that a packet takes of a link beyond its payload.
func LinkOverhead() int { return (*port)(nil).Limits().LinkOverhead }
