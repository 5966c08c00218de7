// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// fabricNaming names adapters of a running fabric, by their name, description or IP address:
// host-1, 198.18.0.1, host-1?fabric=NAME. An empty address stands for an adapter that nobody uses.
type fabricNaming struct{}

// fabricOf takes an address apart.
func fabricOf(address string) (name, adapter string, err error) {
	adapter, options, found := strings.Cut(address, "?")
	if !found {
		return "", adapter, nil
	}
	name, ok := strings.CutPrefix(options, "fabric=")
	if !ok || strings.ContainsAny(name, "&?") {
		return "", "", fmt.Errorf("infiniband: %q: there is one option, fabric=NAME", "?"+options)
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
func (fabricNaming) owns(address string, a netip.Addr) bool {
	name, adapter, err := fabricOf(address)
	if err != nil {
		return false
	}
	n, err := adapterOf(name, adapter)
	return err == nil && isOf(n, a)
}

// reaches reports whether an address is that of some adapter of the fabric.
func (fabricNaming) reaches(address string, a netip.Addr) bool {
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

func isOf(n *fabric.NodeView, a netip.Addr) bool {
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
func adapterOf(name, adapter string) (*fabric.NodeView, error) {
	v, err := infiniband.View(name)
	if err != nil {
		return nil, err
	}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if n.Adapter() && (n.Name == adapter || n.Text == adapter || n.IP == adapter || adapter == "" && n.Programs == 0) {
			return n, nil
		}
	}
	return nil, fmt.Errorf("infiniband: the fabric has no adapter %q", adapter)
}

func adapterGUID(address string) (uint64, error) {
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
	name, adapter, err := fabricOf(n.Address)
	if err != nil {
		return nil, err
	}
	return infiniband.Open(name, adapter, &infiniband.Options{Trace: o.Trace})
}
