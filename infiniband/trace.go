// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
)

func (p *port) traceSent([]*link.Packet)      {}
func (p *port) traceReceived(*fabric.Arrival) {}
