// SPDX-License-Identifier: Apache-2.0

package ibsim

import (
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// DefaultName is the name that libumad2sim uses unless IBSIM_SOCKNAME is set.
const DefaultName = "sim"

// Subnet is where clients attach to nodes. Its methods may be called from any goroutine.
type Subnet interface {
	// Attach returns the access of a program that runs at a node, by the node's name or description; an
	// empty one stands for any adapter. receive is called with what arrives for it, one after the
	// other; it may send.
	Attach(node string, receive func(*Datagram)) (Host, error)
}

// Host is a program's access to its node.
type Host interface {
	Node() string
	// Attributes are those of the node and of its ports as packets of subnet management have them;
	// port 0 is the port where the program is attached.
	NodeInfo() [64]byte
	PortInfo(port uint8) [64]byte
	Port() (lid uint16, state uint8)
	GID() ib.GID
	PKeys() []ib.PKey
	// Tag is what the upper 16 bits of the transaction ids of the program's requests must be, so that
	// their responses find it.
	Tag() uint16
	// SetSM says whether a subnet manager runs there, which gets requests to queue pairs 0 and 1.
	SetSM(on bool) error
	// Serve says whether requests of a management class are for the program, if no other has them.
	Serve(class mad.Class, on bool)
	Send(*Datagram) error
	Close()
}
