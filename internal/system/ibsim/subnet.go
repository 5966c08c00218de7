// SPDX-License-Identifier: Apache-2.0

package ibsim

import (
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// DefaultName is the name that libumad2sim uses unless IBSIM_SOCKNAME is set.
const DefaultName = "sim"

// Subnet attaches clients to nodes. Its methods may be called from any goroutine.
type Subnet interface {
	// Attach attaches a program to a node, by its name or description; an empty one means any adapter. receive
	// is called with one received datagram after the other; it may send.
	Attach(node string, receive func(*Datagram)) (Host, error)
}

// Host is a program's attachment to its node.
type Host interface {
	Node() string
	// NodeInfo and PortInfo are the attributes as in SMPs; port 0 means the port of the program.
	NodeInfo() [64]byte
	PortInfo(port uint8) [64]byte
	Port() (lid uint16, state uint8)
	GID() ib.GID
	PKeys() []ib.PKey
	// Tag is the upper 16 bits of the transaction ids of the program's requests, which their responses are
	// steered by.
	Tag() uint16
	// SetSM sets whether the program is a subnet manager, which gets requests to queue pairs 0 and 1.
	SetSM(on bool) error
	// Serve sets whether requests of a management class are for the program, unless another one serves them.
	Serve(class mad.Class, on bool)
	Send(*Datagram) error
	Close()
}
