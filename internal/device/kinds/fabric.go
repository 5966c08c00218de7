// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// fabricNaming names adapters of a running fabric, by their name, description or IP address:
// host-1, 198.18.0.1, host-1?fabric=NAME. An empty address stands for an adapter that nobody uses. With ?join=HOST:PORT
// it names a new adapter, which joins the fabric that listens there; an empty name is the host's.
type fabricNaming struct{}

// joinOf returns the name of an adapter that joins a fabric, and where that listens; false: it is another adapter.
func joinOf(address string) (adapter, at string, ok bool) {
	adapter, options, _ := strings.Cut(address, "?")
	at, ok = strings.CutPrefix(options, "join=")
	return adapter, at, ok
}

// fabricOf takes an address apart.
func fabricOf(address string) (name, adapter string, err error) {
	adapter, options, found := strings.Cut(address, "?")
	if !found {
		return "", adapter, nil
	}
	name, ok := strings.CutPrefix(options, "fabric=")
	if !ok || strings.ContainsAny(name, "&?") {
		return "", "", fmt.Errorf("infiniband: %q: there is one option, fabric=NAME for a fabric of this host, or join=HOST:PORT for one elsewhere", "?"+options)
	}
	return name, adapter, nil
}

// Local returns the adapters of the default fabric; none, if none runs.
func (fabricNaming) Local() (found []Local, err error) {
	v, err := infiniband.View("")
	if err != nil {
		return nil, nil
	}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if !n.Adapter() || len(n.Ports) == 0 {
			continue
		}
		p := &n.Ports[0]
		found = append(found, Local{Address: n.Name, Up: p.Active(), GID: p.GID})
	}
	return found, nil
}

// Spare returns adapters of the default fabric that nobody uses.
func (fabricNaming) Spare(least int) ([]string, error) { return SpareAdapters("", least) }

// SpareAdapters returns at least least addresses of adapters of a fabric that nobody uses, and whose first
// port is active.
func SpareAdapters(fabric string, least int) ([]string, error) {
	v, err := infiniband.View(fabric)
	if err != nil {
		return nil, err
	}
	option := ""
	if fabric != "" {
		option = "?fabric=" + fabric
	}
	var free []string
	for i := range v.Nodes {
		if n := &v.Nodes[i]; n.Adapter() && n.Programs == 0 && len(n.Ports) > 0 && n.Ports[0].Active() {
			free = append(free, n.Name+option)
		}
	}
	if len(free) < least {
		return nil, fmt.Errorf("infiniband: %d active adapters are needed that nobody uses, and the fabric has %d: end programs, or run a fabric with more adapters", least, len(free))
	}
	return free, nil
}

// At returns the IP address, by which an adapter can be named.
func (fabricNaming) At(ip string) string { return ip }

// IP returns the IP address of an adapter.
func (fabricNaming) IP(address string) (netip.Addr, bool) {
	if _, at, ok := joinOf(address); ok {
		return infiniband.JoinedAddr(at)
	}
	name, adapter, err := fabricOf(address)
	if err != nil {
		return netip.Addr{}, false
	}
	if a, err := netip.ParseAddr(adapter); err == nil {
		return a, true
	}
	n, err := adapterOf(name, adapter)
	if err != nil {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(n.IP)
	return a, err == nil
}

// owns reports whether an address is that of an adapter: its IP address, or the GID of a port.
func (f fabricNaming) owns(address string, a netip.Addr) bool {
	if adapter, _, ok := joinOf(address); ok {
		if guid, err := infiniband.JoinedGUID(adapter); err == nil && a.WithZone("") == joinedGID(guid) {
			return true
		}
		ip, ok := f.IP(address)
		return ok && ip == a.WithZone("")
	}
	name, adapter, err := fabricOf(address)
	if err != nil {
		return false
	}
	n, err := adapterOf(name, adapter)
	return err == nil && isOf(n, a)
}

// reaches reports whether an address is that of some adapter of the fabric.
func (fabricNaming) reaches(address string, a netip.Addr) bool {
	if _, _, ok := joinOf(address); ok { // IP addresses are on the route to the fabric
		return a.Is6() && a.IsLinkLocalUnicast() && a.Zone() == ""
	}
	name, _, err := fabricOf(address)
	if err != nil {
		return false
	}
	v, err := infiniband.View(name)
	if err != nil {
		return false
	}
	for i := range v.Nodes {
		if v.Nodes[i].Adapter() && isOf(&v.Nodes[i], a) {
			return true
		}
	}
	return false
}

// joinedGID returns the GID of the port of an adapter that joins, with the prefix that subnet managers set.
func joinedGID(guid uint64) netip.Addr {
	b := [16]byte{0xfe, 0x80}
	binary.BigEndian.PutUint64(b[8:], guid+1)
	return netip.AddrFrom16(b)
}

func isOf(n *infiniband.NodeView, a netip.Addr) bool {
	if a = a.WithZone(""); n.IP == a.String() {
		return true
	}
	for i := range n.Ports {
		if n.Ports[i].GID == (verbs.GID(a.As16())) {
			return true
		}
	}
	return false
}

// adapterOf returns an adapter of a fabric.
func adapterOf(name, adapter string) (*infiniband.NodeView, error) {
	v, err := infiniband.View(name)
	if err != nil {
		return nil, err
	}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if n.Adapter() && (n.Name == adapter || n.Text == adapter || n.IP == adapter ||
			adapter == "" && n.Programs == 0) {
			return n, nil
		}
	}
	return nil, fmt.Errorf("infiniband: the fabric has no adapter %q", adapter)
}

func adapterGUID(address string) (uint64, error) {
	if adapter, _, ok := joinOf(address); ok {
		return infiniband.JoinedGUID(adapter)
	}
	name, adapter, err := fabricOf(address)
	if err != nil {
		return 0, err
	}
	n, err := adapterOf(name, adapter)
	if err != nil {
		return 0, err
	}
	return n.GUID, nil
}

func openInfiniBand(n Name, o *Options) (*verbs.Device, error) {
	if adapter, at, ok := joinOf(n.Address); ok {
		return infiniband.OpenJoined(context.Background(), at,
			&infiniband.JoinOptions{Options: infiniband.Options{Trace: o.Trace}, Name: adapter, NoWait: o.NoWait})
	}
	name, adapter, err := fabricOf(n.Address)
	if err != nil {
		return nil, err
	}
	return infiniband.Open(name, adapter, &infiniband.Options{Trace: o.Trace})
}
