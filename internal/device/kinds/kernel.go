// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// kernelNaming names the kernel's RDMA devices as sysfs has them: mlx5_0, rxe0. Without a name there is one
// device, or opening it says which there are.
type kernelNaming struct {
	root string // of sysfs: /sys
}

func (k kernelNaming) file(device, name string) string {
	b, err := os.ReadFile(filepath.Join(k.root, "class/infiniband", device, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Local returns the devices of sysfs.
func (k kernelNaming) Local() ([]Local, error) {
	entries, err := os.ReadDir(filepath.Join(k.root, "class/infiniband"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing RDMA devices: %w", err)
	}
	var found []Local
	for _, e := range entries {
		l := Local{Address: e.Name(), NetDev: k.netDev(e.Name()), Up: strings.HasSuffix(k.file(e.Name(), "ports/1/state"), "ACTIVE")}
		if i, err := net.InterfaceByName(l.NetDev); err == nil {
			l.LinkMTU = i.MTU
		}
		if a, err := netip.ParseAddr(k.file(e.Name(), "ports/1/gids/0")); err == nil {
			l.GID = ib.GIDFromAddr(a)
		}
		found = append(found, l)
	}
	return found, nil
}

func (k kernelNaming) netDev(device string) string {
	return k.file(device, "ports/1/gid_attrs/ndevs/0")
}

// Spare returns what there is: devices of the kernel are not made for a test.
func (k kernelNaming) Spare(least int) ([]string, error) {
	local, err := k.Local()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, l := range local {
		if l.Up {
			names = append(names, l.Address)
		}
	}
	if len(names) < least {
		return nil, fmt.Errorf("%d RDMA devices of the kernel with an active port are needed, and there are %d: `rdma link add rxe0 type rxe netdev eth0` makes one in software", least, len(names))
	}
	return names, nil
}

// At returns the device on the interface that has an IP address, or the address if there is none.
func (k kernelNaming) At(ip string) string {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return ip
	}
	local, err := k.Local()
	if err != nil {
		return ip
	}
	for _, l := range local {
		i, err := net.InterfaceByName(l.NetDev)
		if err != nil {
			continue
		}
		for _, a := range addrsOf(i) {
			if a == addr.Unmap().WithZone("") {
				return l.Address
			}
		}
	}
	return ip
}

// IP returns an address of the device's interface, an IPv4 address if there is one.
func (k kernelNaming) IP(address string) (netip.Addr, bool) {
	if address == "" {
		local, err := k.Local()
		if err != nil || len(local) != 1 {
			return netip.Addr{}, false
		}
		address = local[0].Address
	}
	if strings.ContainsAny(address, "/") {
		return netip.Addr{}, false
	}
	return linkNaming{}.IP(k.netDev(address))
}

// unrecordedKernel is why packets of the kernel's devices are not recorded here, and where they are.
const unrecordedKernel = "its packets pass between the program and the adapter unseen. Record them outside: " +
	"`tcpdump -i DEVICE -w FILE` (libpcap 1.9 with rdmasniff) or ibdump for Mellanox adapters, by the device's name, " +
	"and `tcpdump -i INTERFACE -w FILE` for rxe (udp port 4791) and siw (tcp)"

// kernelGUID returns the GUID that sysfs has, such as 0002:c903:0000:1234.
func kernelGUID(device string) (uint64, error) {
	k := kernelNaming{"/sys"}
	text := k.file(filepath.Base(device), "node_guid")
	if text == "" {
		return 0, fmt.Errorf("kernel: there is no device %q", device)
	}
	return strconv.ParseUint(strings.ReplaceAll(text, ":", ""), 16, 64)
}

func openKernel(n Name, o *Options) (*verbs.Device, error) {
	if o.Kernel == nil {
		return nil, fmt.Errorf("ramjet: %q: %w: the program is built without RDMA hardware. It has to name the package that is for it: "+
			"import \"github.com/ramjet-rdma/ramjet/kernel\", and ramjet.Open(%q, ramjet.WithKernel(kernel.Open))", n.String(), verbs.ErrNotSupported, n.String())
	}
	dev, err := o.Kernel(n.Address)
	if err != nil {
		return nil, fmt.Errorf("ramjet: %q: %w", n.String(), err)
	}
	return dev, nil
}
