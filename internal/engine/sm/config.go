// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/engine/routing"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// Config is the configuration of a manager. Zero values mean the defaults, except where noted.
type Config struct {
	PortGUID uint64 // of the manager's port: an adapter's, or a switch's port 0
	Priority uint8  // 0 to 15; the highest becomes master
	SMKey    uint64 // managers with another are not trusted; default 1, as in OpenSM
	TIDBase  uint32 // upper half of transaction ids; make it random, so that others cannot guess them

	Prefix  uint64 // of the subnet's GIDs; default fe80::
	MKey    uint64 // of all ports; 0: none, anyone may manage them
	Protect uint8  // M_KeyProtectBits: 0 to 3
	Lease   uint16 // M_KeyLeasePeriod in seconds; 0: for ever

	LMC        uint8             // 0 to 7: adapter ports have 2^LMC LIDs
	Routing    routing.Algorithm // default [routing.Auto]
	Partitions []Partition       // none: all ports are full members of the default partition; see ParsePartitions
	MaxVLs     int               // limit of data VLs; default: as many as both ends of a link have
	HOQLife    uint8             // head-of-queue lifetime code of switch ports; 0: unchanged
	LifeTime   uint8             // code of SubnetTimeout and of the packet lifetime of paths; default 18, about 1 s

	Window        int           // requests in flight; default 32
	Timeout       time.Duration // of a request; default 200 ms
	Retries       int           // of a request; default 3
	SweepInterval time.Duration // between light sweeps; default 10 s
	PollInterval  time.Duration // between a standby manager's polls of the master; default 2 s

	Limits Limits
}

// Limits bounds the memory that other nodes can make a manager hold, and its work for one request.
type Limits struct {
	Nodes         int // of the subnet; default 16,384
	Responses     int // tables in transfer, default 64; at most 8 per requester
	ResponseBytes int // of one table, default 4 MiB
	PathPairs     int // pairs of ports that one path query may select, default 262,144
	Groups        int // multicast groups created by joins, default 1,024
	Services      int // service records, default 4,096
	Subscriptions int // default 1,024
	PerPort       int // groups, services and subscriptions, each, of one port; default 256
	Replies       int // datagrams queued to be sent, default 1,024
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
	setDefault(&l.PathPairs, 1<<18)
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

// perRequester limits the tables in transfer to one requester.
const perRequester = 8

// Datagram is a management datagram to or from a manager.
type Datagram struct {
	MAD [mad.Size]byte
	// QPN is 0 for subnet management, over VL 15, and 1 for subnet administration.
	QPN ib.QPN
	// LID is its destination, or its source. The permissive LID means a directed route through the management
	// agent of the manager's own node.
	LID  uint16
	Peer ib.QPN // the queue pair at the other end
	SL   uint8
	PKey ib.PKey
}
