// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/engine/routing"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// Config is how a manager manages. What is zero has a default, except where it says otherwise.
type Config struct {
	PortGUID uint64 // of the port that the manager sits at: an adapter's port, or a switch's port 0
	Priority uint8  // 0 to 15: the master is the manager with the highest
	SMKey    uint64 // managers with another one are not trusted; default 1, as OpenSM has it
	TIDBase  uint32 // upper half of the transaction IDs; drawn at random, it keeps others from guessing them

	Prefix  uint64 // of the subnet's GIDs; default fe80::
	MKey    uint64 // set at all ports; 0: none, anyone may manage
	Protect uint8  // M_KeyProtectBits: 0 to 3
	Lease   uint16 // M_KeyLeasePeriod in seconds; 0: for ever

	LMC        uint8             // adapters' ports have 2^LMC LIDs, 0 to 7
	Routing    routing.Algorithm // default [routing.Auto]
	Partitions []Partition       // none: all ports are full members of the default partition; see ParsePartitions
	MaxVLs     int               // data VLs in use at most; default as many as both ends of a link have
	HOQLife    uint8             // head-of-queue lifetime of switches' ports, a code; 0: left as it is
	LifeTime   uint8             // SubnetTimeout and packets' lifetime of paths, a code; default 18, about a second

	Window        int           // requests under way at once; default 32
	Timeout       time.Duration // of a request; default 200 ms
	Retries       int           // of a request; default 3
	SweepInterval time.Duration // how often switches are asked for changes; default 10 s
	PollInterval  time.Duration // how often a standby manager asks the master whether it lives; default 2 s

	Limits Limits
}

// Limits bound what others can make a manager hold.
type Limits struct {
	Nodes         int // of the subnet; default 16,384
	Responses     int // tables that are being sent at once, default 64; one requester has 8 at most
	ResponseBytes int // of one table, default 4 MiB
	Groups        int // multicast groups that were created by joining, default 1,024
	Services      int // service records, default 4,096
	Subscriptions int // default 1,024
	PerPort       int // groups, services and subscriptions each that one port may have created; default 256
	Replies       int // datagrams that wait to be sent, default 1,024
}

func (c *Config) defaults() {
	setDefault(&c.SMKey, 1)
	setDefault(&c.Prefix, 0xfe80_0000_0000_0000)
	setDefault(&c.LifeTime, 18)
	setDefault(&c.Window, 32)
	setDefault(&c.Timeout, 200*time.Millisecond)
	setDefault(&c.Retries, 3)
	setDefault(&c.SweepInterval, 10*time.Second)
	setDefault(&c.PollInterval, 2*time.Second)
	setDefault(&c.MaxVLs, 15)
	l := &c.Limits
	setDefault(&l.Nodes, 16384)
	setDefault(&l.Responses, 64)
	setDefault(&l.ResponseBytes, 4<<20)
	setDefault(&l.Groups, 1024)
	setDefault(&l.Services, 4096)
	setDefault(&l.Subscriptions, 1024)
	setDefault(&l.PerPort, 256)
	setDefault(&l.Replies, 1024)
	c.Window = min(c.Window, maxWindow)
	c.Priority = min(c.Priority, 15)
	c.LMC = min(c.LMC, 7)
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// perRequester is how many tables one requester may be sent at once.
const perRequester = 8

// Datagram is a management datagram on its way to a manager or from it.
type Datagram struct {
	MAD [mad.Size]byte
	// QPN is 0 for subnet management, which goes over VL 15, and 1 for subnet administration.
	QPN ib.QPN
	// LID is where it goes, or came from. The permissive LID stands for a directed route, which the
	// management agent of the manager's own node takes or has delivered.
	LID  uint16
	Peer ib.QPN // the queue pair at the other end
	SL   uint8
	PKey ib.PKey
}
