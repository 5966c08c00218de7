// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	"github.com/ramjet-rdma/ramjet/internal/engine/sm"
	"github.com/ramjet-rdma/ramjet/internal/engine/topology"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// FabricOptions are optional parameters of a fabric; nil stands for the zero value.
type FabricOptions struct {
	// NoManager runs no subnet manager, so that another one such as OpenSM can manage the subnet.
	NoManager bool
	// Manager are the options of the built-in subnet manager.
	Manager ManagerOptions
	Seed    uint64 // of the errors on cables
	// Trace records every packet at every cable that it passes. A comment names the sending port: "from leaf-1[3]".
	Trace *trace.Writer
	// Spare is how many further ports, without cables, each switch of a generated fabric has.
	Spare int
	// Host, 0 to 63, tells joined fabrics apart: it selects the GUIDs of nodes whose file gives none, and
	// the IP addresses of adapters: from 198.18.0.1 for 0, 198.18.8.1 for 1, 198.18.16.1 for 2. A fabric of
	// more than 2,047 adapters continues into the next one's addresses.
	Host int
}

// ManagerOptions are options of the built-in subnet manager.
type ManagerOptions struct {
	Priority uint8 // 0 to 15: another manager with a higher one takes over
	// Routing is the routing algorithm: auto, min-hop or up-down; empty: auto.
	Routing string
	// LMC, 0 to 7, gives each adapter port 2^LMC LIDs, and so as many paths.
	LMC uint8
	// MKey is the M_Key of all ports; 0: none, anyone may manage them. Protect (M_KeyProtectBits, 0 to 3) selects the
	// requests that are refused without it. Lease is for how many seconds a port stays protected if its manager does
	// not answer; 0: for ever (section 14.2.4).
	MKey    uint64
	Protect uint8
	Lease   uint16
	// Partitions is the text of a partitions.conf as OpenSM reads it, in which a node's name also stands for its
	// ports. Errors call it PartitionFile. Empty: all ports are full members of the default partition.
	Partitions, PartitionFile string

	// Event is called with one event after the other; it may be nil. It must return soon: at most a thousand events are
	// queued meanwhile, and later ones are lost.
	Event func(ManagerEvent)
}

// running returns the options as the fabric that runs takes them.
func (o *ManagerOptions) running() fabric.ManagerOptions {
	r := fabric.ManagerOptions{Priority: o.Priority, Routing: o.Routing, LMC: o.LMC, MKey: o.MKey, Protect: o.Protect,
		Lease: o.Lease, Partitions: o.Partitions, PartitionFile: o.PartitionFile}
	if o.Event != nil {
		r.Event = func(e sm.Event) { o.Event(newManagerEvent(e)) }
	}
	return r
}

const (
	maxHosts  = 64
	hostAddrs = 2048
)

// Fabric is a fabric in this process. One that is started in a bubble of package testing/synctest runs in its virtual
// time: a poll that finds nothing lets time pass there.
type Fabric struct {
	running  *fabric.Fabric
	commands []topology.Command

	placesMu sync.Mutex
	places   places // of adapters that joined

	console atomic.Pointer[func(ctx context.Context, line string) (string, error)]
	line    chan struct{} // of capacity 1: has an element while a line runs
}

// NewFabric starts a fabric from a topology in the text format of ibnetdiscover or ibsim. Errors call the text
// name.
func NewFabric(name, text string, o *FabricOptions) (*Fabric, error) {
	host := 0
	if o != nil {
		host = o.Host
	}
	t, err := topology.ParseFor(host, name, []byte(text), nil)
	if err != nil {
		return nil, fmt.Errorf("infiniband: %w", err)
	}
	return start(t, o)
}

// GenerateFabric starts a fabric with a generated topology, such as "pair", "star:8" or "fat-tree:4,2".
func GenerateFabric(shape string, o *FabricOptions) (*Fabric, error) {
	t, err := topology.Generate(shape)
	if err != nil {
		return nil, fmt.Errorf("infiniband: %w", err)
	}
	if o != nil {
		for i := range t.Nodes {
			shift(&t.Nodes[i], uint64(o.Host)*topology.HostGUIDs)
		}
		if err := t.AddPorts(o.Spare); err != nil {
			return nil, fmt.Errorf("infiniband: %w", err)
		}
	}
	return start(t, o)
}

// shift adds by to the GUIDs of a node.
func shift(n *topology.Node, by uint64) {
	n.GUID += by
	n.SystemGUID += by
	for p := range n.Ports {
		if n.Ports[p].GUID != 0 {
			n.Ports[p].GUID += by
		}
	}
}

func start(t *topology.Topology, o *FabricOptions) (*Fabric, error) {
	if o == nil {
		o = &FabricOptions{}
	}
	if o.Host < 0 || o.Host >= maxHosts {
		return nil, fmt.Errorf("infiniband: host %d: fabrics that are joined are numbered from 0 to %d", o.Host,
			maxHosts-1)
	}
	return run(t, &fabric.Options{FirstAddr: o.Host * hostAddrs, Seed: o.Seed, NoManager: o.NoManager,
		Manager: o.Manager.running(), Record: recorder(o.Trace)})
}

// run starts a fabric with options that users do not have.
func run(t *topology.Topology, o *fabric.Options) (*Fabric, error) {
	running, err := fabric.New(t, o)
	if err != nil {
		return nil, fmt.Errorf("infiniband: %w", err)
	}
	return &Fabric{running: running, commands: t.Commands, places: make(places), line: make(chan struct{}, 1)}, nil
}

// Simulations run fabrics in virtual time, with options that users do not have.
func init() {
	fabric.Start = func(t *topology.Topology, o *fabric.Options) (any, error) { return run(t, o) }
}

// Open opens the device of an adapter, by name, description or IP address. An empty name means the first
// adapter that is not in use.
func (f *Fabric) Open(adapter string, opt *Options) (*verbs.Device, error) {
	p := newPort(f.running.NewWaiter(), opt)
	s, err := f.running.Attach(adapter, p)
	if err != nil {
		return nil, fmt.Errorf("infiniband: %w", err)
	}
	return p.open("infiniband:"+s.Name(), s), nil
}

// Open opens the device of an adapter of a fabric that another process of the user serves: see [Fabric.Serve].
// Empty names mean the default fabric, and the first adapter that is not in use. On a busy host it waits for up to two
// minutes.
func Open(name, adapter string, opt *Options) (*verbs.Device, error) {
	return OpenContext(context.Background(), name, adapter, opt)
}

// OpenContext is [Open] that ends with ctx.
func OpenContext(ctx context.Context, name, adapter string, opt *Options) (*verbs.Device, error) {
	p := newPort(fabric.NewWaiter(), opt)
	a, err := attach(ctx, name, adapter, p)
	if err != nil {
		return nil, err
	}
	device := "infiniband:" + a.Name()
	if name != "" {
		device += "?fabric=" + name
	}
	return p.open(device, a), nil
}

// Close ends the fabric, and with it the devices on it.
func (f *Fabric) Close() { f.running.Close() }

// AwaitActive waits until all ports with cables between powered nodes are active, and the built-in manager is
// idle.
func (f *Fabric) AwaitActive(ctx context.Context) error {
	for !f.running.Active() {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("infiniband: some ports with cables are not active: %w", ctx.Err())
		}
	}
	return nil
}
