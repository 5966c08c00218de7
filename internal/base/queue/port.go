// SPDX-License-Identifier: Apache-2.0

package queue

import "github.com/ramjet-rdma/ramjet/verbs"

// Port holds the properties of a device's port that its queue pairs use.
type Port struct {
	Num   int          // from 1
	MTU   int          // bytes: the largest path MTU, and the limit of a datagram
	PKeys []verbs.PKey // the partition table; 0: an empty row
}

// Update applies the port's new attributes. The partition table keeps its length, because queue
// pairs are attached to rows of it, and belong to the partition that is in their row (IBTA 10.9.2).
func (p *Port) Update(mtu verbs.MTU, pkeys []verbs.PKey) {
	p.MTU = mtu.Bytes()
	if p.PKeys == nil {
		p.PKeys = make([]verbs.PKey, len(pkeys))
	}
	clear(p.PKeys[copy(p.PKeys, pkeys):])
}

// Member reports whether the port is in the partition of a key, and so may receive packets with it
// (IBTA 10.9.3).
func (p *Port) Member(key verbs.PKey) bool {
	for _, k := range p.PKeys {
		if k.Match(key) {
			return true
		}
	}
	return false
}
