// SPDX-License-Identifier: Apache-2.0

package sma

import "github.com/ramjet-rdma/ramjet/internal/engine/link"

// Arguments and results of the link layer's calls of an agent.
type (
	Route   = link.Route
	Verdict = link.Verdict
)

const (
	Drop    = link.Drop
	Reply   = link.Reply
	Deliver = link.Deliver
)

// Out returns the verdict that the packet goes out at a port.
func Out(port int) Verdict { return link.Out(port) }

var _ link.Watcher = (*Agent)(nil)
