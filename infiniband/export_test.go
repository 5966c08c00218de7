// SPDX-License-Identifier: Apache-2.0

package infiniband

import "github.com/ramjet-rdma/ramjet/internal/core/fabric"

// Running returns the fabric that runs behind a public one.
func (f *Fabric) Running() *fabric.Fabric { return f.running }

// LinkOverhead is the room on a link, beyond its payload, that a device counts for a packet.
func LinkOverhead() int { return (*port)(nil).Limits().LinkOverhead }
