// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"cmp"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/system/rdmasys"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// kernelNaming names the kernel's RDMA devices as sysfs has them: mlx5_0, rxe0. Without a name it is the only
// device, see [Name.Unnamed].
type kernelNaming struct {
	read func() *rdmasys.System
}

var kernelNames = kernelNaming{func() *rdmasys.System { return rdmasys.Host().ReadDevices() }}

// Local returns the devices of sysfs.
func (k kernelNaming) Local() (found []Local, err error) {
	sys := k.read()
	for i := range sys.Devices {
		d := &sys.Devices[i]
		l := Local{Address: d.Name}
		if len(d.Ports) > 0 {
			p := &d.Ports[0]
			l.NetDev, l.Up = p.NetDev, p.Active()
			if n := sys.Interface(p.NetDev); n != nil {
				l.LinkMTU = n.MTU
			}
			if len(p.GIDs) > 0 {
				l.GID = ib.GIDFromAddr(p.GIDs[0].Addr)
			}
		}
		found = append(found, l)
	}
	return found, nil
}

// Spare returns each device least times: processes share devices of the kernel, and not every two of them reach each
// other. Hardware comes first, and devices that connect queue pairs by their numbers before iWARP.
func (k kernelNaming) Spare(least int) (names []string, err error) {
	sys := k.read()
	active := slices.DeleteFunc(slices.Clone(sys.Devices),
		func(d rdmasys.Device) bool { return len(d.Ports) == 0 || !d.Ports[0].Active() })
	if len(active) == 0 {
		return nil, fmt.Errorf("an RDMA device of the kernel with an active port is needed, and there is none: `rdma link add rxe0 type rxe netdev eth0` makes one in software")
	}
	rank := func(d rdmasys.Device) (n int) {
		if !d.Hardware {
			n++
		}
		if d.IWARP() {
			n += 2
		}
		return n
	}
	slices.SortStableFunc(active, func(a, b rdmasys.Device) int { return cmp.Compare(rank(a), rank(b)) })
	for _, d := range active {
		names = append(names, slices.Repeat([]string{d.Name}, least)...)
	}
	return names, nil
}

// At returns the device that leads to others from an IP address of this host, or the address if there is none.
func (k kernelNaming) At(ip string) string {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return ip
	}
	ways, _ := k.read().Candidates(rdmasys.Route{From: addr.Unmap(), Local: true})
	if len(ways) == 0 {
		return ip
	}
	return ways[0].Device
}

// IP returns an address of the device's interface, an IPv4 address if there is one.
func (k kernelNaming) IP(address string) (netip.Addr, bool) {
	sys := k.read()
	if address == "" && len(sys.Devices) == 1 {
		address = sys.Devices[0].Name
	}
	d := sys.Device(address)
	if d == nil || len(d.Ports) == 0 {
		return netip.Addr{}, false
	}
	n := sys.Interface(d.Ports[0].NetDev)
	if n == nil {
		return netip.Addr{}, false
	}
	return bestOf(n.Addrs)
}

// bestOf returns an address that other hosts can use, an IPv4 address if there is one.
func bestOf(addrs []netip.Prefix) (best netip.Addr, ok bool) {
	for _, p := range addrs {
		if a := p.Addr(); !a.IsLinkLocalUnicast() && (!ok || !best.Is4() && a.Is4()) {
			best, ok = a, true
		}
	}
	return best, ok
}

// Unnamed reports whether a name says only that the device is one of the kernel's: "kernel:". It is the only one
// there is; [Name.Toward] and [Name.On] choose among several.
func (n Name) Unnamed() bool { return n.Kind.Hardware && n.Address == "" }

// Toward returns the device that an unnamed one stands for with a peer: the one that leads to its address.
// why describes the choice among several, with its reason.
func (n Name) Toward(peer netip.Addr) (chosen Name, why string, err error) {
	route, err := rdmasys.RouteTo(peer.Unmap())
	if err != nil {
		return n, "", err
	}
	return n.chooseAmong(kernelNames.read(), route, fmt.Sprintf("leads to %v", peer))
}

// On is Toward for an address of this host: the device that leads to others from there.
func (n Name) On(local netip.Addr) (chosen Name, why string, err error) {
	return n.chooseAmong(kernelNames.read(), rdmasys.Route{From: local.Unmap(), Local: true},
		fmt.Sprintf("has %v", local))
}

// chooseAmong chooses among the devices of a host. does names the ability that a device needs, for errors.
func (n Name) chooseAmong(sys *rdmasys.System, route rdmasys.Route, does string) (Name, string, error) {
	if len(sys.Devices) < 2 {
		return n, "", nil // the one there is, or opening it says that there is none
	}
	ways, not := sys.Candidates(route)
	if len(ways) > 0 {
		chosen := Name{n.Kind, ways[0].Device}
		return chosen, fmt.Sprintf("using %v of %d devices, because it %s (%s)", chosen, len(sys.Devices), does,
			ways[0].Reason), nil
	}
	var names []string
	for i := range sys.Devices {
		names = append(names, Name{n.Kind, sys.Devices[i].Name}.String())
	}
	text := fmt.Sprintf("none of %s %s", strings.Join(names, ", "), does)
	for _, w := range not {
		text += fmt.Sprintf("; %s: %s", w.Device, w.Reason)
	}
	return n, "", fmt.Errorf("%q: %s: name one", n.String(), text)
}

// unrecordedKernel is why packets of the kernel's devices are not recorded here, and where they are.
const unrecordedKernel = "its packets pass between the program and the adapter unseen. Record them outside: " +
	"`tcpdump -i DEVICE -w FILE` (libpcap 1.9 with rdmasniff) or ibdump for Mellanox adapters, by the device's name, " +
	"and `tcpdump -i INTERFACE -w FILE` for rxe (udp port 4791) and siw (tcp)"

// kernelGUID returns the GUID that sysfs has, such as 0002:c903:0000:1234.
func kernelGUID(device string) (uint64, error) {
	d := kernelNames.read().Device(filepath.Base(device))
	if d == nil || d.NodeGUID == "" {
		return 0, fmt.Errorf("kernel: there is no device %q", device)
	}
	return strconv.ParseUint(strings.ReplaceAll(d.NodeGUID, ":", ""), 16, 64)
}

func openKernel(n Name, o *Options) (*verbs.Device, error) {
	open := o.Kernel
	if open == nil {
		open = rdmasys.Open
	}
	if open == nil {
		return nil, fmt.Errorf(
			"ramjet: %q: %w: the program is built without RDMA hardware. It has to name the package that is for it: "+
				"import _ \"github.com/ramjet-rdma/ramjet/kernel\", or ramjet.WithKernel(kernel.Open)", n.String(),
			verbs.ErrNotSupported)
	}
	dev, err := open(n.Address)
	if err != nil {
		return nil, fmt.Errorf("ramjet: %q: %w", n.String(), err)
	}
	return dev, nil
}
