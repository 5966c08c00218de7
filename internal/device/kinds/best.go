// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/internal/system/rdmasys"
)

// Choice is a device of this host by which a peer can be reached, or cannot.
type Choice struct {
	Name   string `json:"name"`   // as Open takes it
	Reason string `json:"reason"` // why it can, and where in the order it is; or why it cannot
}

// Choices are the devices of this host that may reach a peer.
type Choices struct {
	Route    rdmasys.Route
	Best     []Choice // devices that would work, in order of preference
	Unusable []Choice // devices that one might expect here, and why they do not work
}

// Best returns the devices of this host by which a peer's address can be reached, in order of
// preference: see [ChoicesFor].
func Best(peer netip.Addr) ([]Choice, error) {
	c, err := ChoicesFor(peer)
	return c.Best, err
}

// ChoicesFor looks for devices by which a peer's address can be reached: shared memory if the address is this host's;
// then the kernel's RDMA devices on the interface that the route takes, hardware first; then Ramjet's own that need
// nothing but an address, on the one that the system would send from. It asks for the route, reads the kernel's
// description of its devices, tries whether their files can be opened, and sends nothing.
func ChoicesFor(peer netip.Addr) (Choices, error) {
	peer = peer.Unmap()
	route, err := rdmasys.RouteTo(peer)
	if err != nil {
		return Choices{}, err
	}
	if !route.From.IsValid() {
		return Choices{}, fmt.Errorf("there is no address of this host to reach %v from", peer)
	}
	own := route.Local
	if !own {
		if own, err = isOwn(peer); err != nil {
			return Choices{}, err
		}
	}
	route.Local = own
	return choose(route, rdmasys.Host().ReadDevices(), Table), nil
}

// choose puts the devices of a table in order. The table has a row for the kernel's.
func choose(route rdmasys.Route, sys *rdmasys.System, table []*Kind) Choices {
	c := Choices{Route: route}
	var hardware *Kind
	for _, k := range table {
		switch {
		case k.Hardware:
			hardware = k
		case k.Host && route.Local && k.Listed:
			c.Best = append(c.Best, Choice{Name{Kind: k}.String(),
				"the address is this host's: memory is shared, with a peer whose device is " + k.Name + ": too"})
		}
	}
	candidates, unusable := sys.Candidates(route)
	for _, w := range candidates {
		if why := sys.Barred(w.Device); why != "" {
			c.Unusable = append(c.Unusable, Choice{w.Device, w.Reason + ", but " + why})
			continue
		}
		what := "software of the kernel; "
		if w.Hardware {
			what = "hardware; "
		}
		c.Best = append(c.Best, Choice{Name{hardware, w.Device}.String(), what + w.Reason})
	}
	for _, n := range unusable {
		c.Unusable = append(c.Unusable, Choice{n.Device, n.Reason})
	}
	for _, k := range table {
		if k.Host || k.Link || k.Soft || k.Hardware || !k.Listed {
			continue
		}
		name := k.NameAt(route.From.String()).String()
		if k.Port == rdmasys.RoCEPort && sys.TakesPort() != nil {
			c.Unusable = append(c.Unusable, Choice{name, portTaken(sys)})
			continue
		}
		c.Best = append(c.Best,
			Choice{name, fmt.Sprintf("software; %s, from %v, from which the system would send", k.Text, route.From)})
	}
	return c
}

// portTaken names the holder of RoCEv2's port on all addresses.
func portTaken(sys *rdmasys.System) string {
	if sys.RXEHasPort() {
		return fmt.Sprintf("the kernel's module rdma_rxe has UDP port %d of all addresses: `modprobe -r rdma_rxe` frees it", rdmasys.RoCEPort)
	}
	return fmt.Sprintf("another socket has UDP port %d of all addresses: `ss -ulpn 'sport = :%d'` shows whose",
		rdmasys.RoCEPort, rdmasys.RoCEPort)
}

// isOwn reports whether an address is one of this host.
func isOwn(a netip.Addr) (bool, error) {
	if a.IsLoopback() {
		return true, nil
	}
	local, err := ipNaming{}.Local()
	for _, l := range local {
		if own, err := netip.ParseAddr(l.Address); err == nil && own.WithZone("") == a.WithZone("") {
			return true, nil
		}
	}
	return false, err
}
