// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"fmt"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
)

// Command is a command for the console in a topology file, a line that begins with do.
type Command struct {
	File string
	Line int
	Text string // without the do
}

// ReadFabric starts a fabric from a topology file in the format of ibnetdiscover or ibsim. Relative names of
// included files are looked up in the file's directory.
func ReadFabric(file string, o *FabricOptions) (*Fabric, error) {
	host := 0
	if o != nil {
		host = o.Host
	}
	t, err := fabric.ReadTopology(file, host)
	if err != nil {
		return nil, err
	}
	return start(t, o)
}

// Commands returns the commands of the fabric's topology file. They have not been run.
func (f *Fabric) Commands() []Command {
	list := make([]Command, len(f.commands))
	for i, c := range f.commands {
		list[i] = Command(c)
	}
	return list
}

// View returns a snapshot of the fabric.
func (f *Fabric) View() *FabricView { return newView(f.view()) }

// view returns a snapshot in the form in which it is sent to other processes.
func (f *Fabric) view() *fabric.View {
	v := f.running.View()
	f.placesMu.Lock()
	defer f.placesMu.Unlock()
	f.places.markPulled(v)
	return v
}

// Route returns the output ports of a packet's path from one adapter port to another, in order, by the current
// forwarding tables. arrives is false if the packet gets no further than the last of them.
func (f *Fabric) Route(from, to End) (hops []End, arrives bool, err error) {
	h, arrives, err := f.running.Route(fabric.End(from), fabric.End(to))
	return endsOf(h), arrives, err
}

// Plug connects two ports with a cable.
func (f *Fabric) Plug(a, b End) error { return f.running.Plug(fabric.End(a), fabric.End(b)) }

// Pull pulls the cable at a port. Packets on it are lost. The port of an adapter that has joined, from another process,
// may be called by the adapter's name.
func (f *Fabric) Pull(e End) error { return f.running.Pull(fabric.End(f.here(e))) }

// Relink plugs the cable of an adapter that has joined in again, after Pull.
func (f *Fabric) Relink(e End) error {
	e = f.here(e)
	f.placesMu.Lock()
	defer f.placesMu.Unlock()
	if !f.places.relink(e) {
		return fmt.Errorf("infiniband: no cable of an adapter that has joined was pulled at %v", e)
	}
	return nil
}

// here returns the port that has the cable to an adapter that has joined, or the port itself.
func (f *Fabric) here(e End) End {
	f.placesMu.Lock()
	defer f.placesMu.Unlock()
	if at, ok := f.places.of(e); ok {
		return at
	}
	return e
}

// Power switches a switch off, or on again.
func (f *Fabric) Power(name string, on bool) error { return f.running.Power(name, on) }

// SetErrorRate makes the cable at a port corrupt bits, each with the same probability. It is given as the share, from
// 0 to 1, of packets with 4,096 bytes of payload that are corrupted: of shorter ones it is less. See
// [Fabric.SetPacketErrorRate].
func (f *Fabric) SetErrorRate(e End, share float64) error {
	return f.running.SetErrorRate(fabric.End(e), share)
}

// SetPacketErrorRate makes the cable at a port corrupt a share of all packets, from 0 to 1, whatever their length and
// direction. Their receiver notices, and drops them (section 7.8).
func (f *Fabric) SetPacketErrorRate(e End, share float64) error {
	return f.running.SetPacketErrorRate(fabric.End(e), share)
}

// DropPacket makes the cable at a port lose the nth packet, from 1 on, that the port sends from now on: it arrives
// corrupted. Management packets do not count. A second call replaces the first.
func (f *Fabric) DropPacket(e End, nth int) error { return f.running.CorruptNext(fabric.End(e), nth) }

// SetDelay changes how long everything takes on the cable at a port, in both directions.
func (f *Fabric) SetDelay(e End, d time.Duration) error { return f.running.SetDelay(fabric.End(e), d) }

// SetReorder makes the cable at a port hold back a share of the packets, from 0 to 1, in both directions, for up to
// most: later ones overtake them, as with adaptive routing. Management packets keep their order. A share of 0 ends
// that.
func (f *Fabric) SetReorder(e End, share float64, most time.Duration) error {
	return f.running.SetReorder(fabric.End(e), share, most)
}

// HoldCredits makes a port withhold the credits of a virtual lane, or grant them again. Without credits the other
// end of the cable sends nothing on that lane (section 7.9).
func (f *Fabric) HoldCredits(e End, vl int, on bool) error {
	return f.running.Hold(fabric.End(e), vl, on)
}

// SetGUID changes the GUID of a node, for port 0, or of an adapter's port.
func (f *Fabric) SetGUID(e End, guid uint64) error { return f.running.SetGUID(fabric.End(e), guid) }

// ClearCounters sets counters to 0: of a port, of all ports of a node if the port is 0, and of all nodes
// if the name is empty.
func (f *Fabric) ClearCounters(e End) error { return f.running.ClearCounters(fabric.End(e)) }
