// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/app/capture"
	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Process is the source of the packets that a process has kept of a queue pair.
func Process(p *observe.Packets) Source {
	return func(to func(*capture.Packet)) (capture.Counts, error) { return capture.FromProcess(p, to) }
}

// LimitsOf returns how often the queue pair of such packets sends requests to its peer again. There are none if the
// process does not say, or has sent nothing.
func LimitsOf(p *observe.Packets, peer ib.QPN, retries, rnrRetries uint8) []Limits {
	i := slices.IndexFunc(p.Packets, func(k observe.Packet) bool { return k.Sent })
	if retries == 0 && rnrRetries == 0 || i < 0 {
		return nil
	}
	return []Limits{{From: capture.SenderOf(p, i), To: peer, Retries: retries, RNRRetries: rnrRetries}}
}
