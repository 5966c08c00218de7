// SPDX-License-Identifier: Apache-2.0

package rdmasys

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// The limits for reading any tree.
const (
	maxDevices = 1024
	maxPorts   = 255  // a port's number has 8 bits
	maxGIDs    = 4096 // entries of a port's table
	maxFile    = 16 << 20
)

const class = "sys/class/infiniband"

// text returns the content of a file without spaces around it; empty, too, if it cannot be read: the
// kernel answers EINVAL for entries that are not in use.
func (r *reader) text(name string) string {
	f, err := r.root.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	var b strings.Builder
	buf := make([]byte, 4096)
	for b.Len() < maxFile {
		n, err := f.Read(buf)
		b.Write(buf[:n])
		if err != nil || n == 0 {
			break
		}
	}
	return strings.TrimSpace(b.String())
}

// list returns the names in a folder, at most limit.
func (r *reader) list(folder string, limit int) (names []string) {
	entries, err := fs.ReadDir(r.root, folder)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names[:min(len(names), limit)]
}

// numbers returns the names in a folder that are numbers, in their order.
func (r *reader) numbers(folder string, limit int) (found []int) {
	for _, name := range r.list(folder, limit) {
		if n, err := strconv.Atoi(name); err == nil && n >= 0 {
			found = append(found, n)
		}
	}
	slices.Sort(found)
	return found
}

func (r *reader) devices() (found []Device) {
	files := make(map[string]string)
	for _, name := range r.list("sys/class/infiniband_verbs", maxDevices) {
		if dev := r.text(path.Join("sys/class/infiniband_verbs", name, "ibdev")); dev != "" {
			files[dev] = name
		}
	}
	for _, name := range r.list(class, maxDevices) {
		at := path.Join(class, name)
		d := Device{
			Name:     name,
			NodeType: parseNumbered(r.text(path.Join(at, "node_type"))),
			Firmware: r.text(path.Join(at, "fw_ver")),
			NodeGUID: r.text(path.Join(at, "node_guid")),
			Driver:   parseDriver(r.text(path.Join(at, "device/uevent"))),
			Verbs:    files[name],
		}
		_, err := fs.Stat(r.root, path.Join(at, "device"))
		d.Hardware = err == nil
		parent := r.text(path.Join(at, "parent")) // of rxe
		beside := r.list(path.Join(at, "device/net"), 64)
		for _, n := range r.numbers(path.Join(at, "ports"), maxPorts) {
			p := r.port(path.Join(at, "ports", strconv.Itoa(n)), n)
			p.CMType = r.text(path.Join("sys/kernel/config/rdma_cm", name, "ports", strconv.Itoa(n),
				"default_roce_mode"))
			if p.NetDev = netDevOf(&p); p.NetDev == "" && p.LinkLayer == "Ethernet" {
				p.NetDev = r.hardwareNetDev(&p, parent, beside)
			}
			d.Ports = append(d.Ports, p)
		}
		found = append(found, d)
	}
	return found
}

func (r *reader) port(at string, n int) Port {
	p := Port{
		Number:    n,
		LinkLayer: r.text(path.Join(at, "link_layer")),
		State:     parseNumbered(r.text(path.Join(at, "state"))),
		Physical:  parseNumbered(r.text(path.Join(at, "phys_state"))),
		Rate:      r.text(path.Join(at, "rate")),
		LID:       int(max(0, parseNumber(r.text(path.Join(at, "lid"))))),
		SMLID:     int(max(0, parseNumber(r.text(path.Join(at, "sm_lid"))))),
	}
	for _, i := range r.numbers(path.Join(at, "gids"), maxGIDs) {
		index := strconv.Itoa(i)
		addr, ok := parseGID(r.text(path.Join(at, "gids", index)))
		if !ok {
			continue
		}
		p.GIDs = append(p.GIDs, GID{Index: i, Addr: addr, Type: r.text(path.Join(at, "gid_attrs/types", index)),
			NetDev: r.text(path.Join(at, "gid_attrs/ndevs", index))})
	}
	return p
}

// netDevOf returns the interface of the first GID that has one: the port's own. The interfaces of VLANs
// come after it.
func netDevOf(p *Port) string {
	for _, g := range p.GIDs {
		if g.NetDev != "" {
			return g.NetDev
		}
	}
	return ""
}

// hardwareNetDev finds the interface of a port without one in its GID table, as kernels before 6.5
// have them for iWARP: the parent of a soft device, the interface whose MAC address the GID begins
// with, or the one interface of the same hardware.
func (r *reader) hardwareNetDev(p *Port, parent string, beside []string) string {
	if parent != "" {
		return parent
	}
	for i := range r.s.Interfaces {
		mac := strings.ReplaceAll(r.s.Interfaces[i].Address, ":", "")
		for _, g := range p.GIDs {
			b := g.Addr.As16()
			if len(mac) == 12 && mac == hexOf(b[:6]) {
				return r.s.Interfaces[i].Name
			}
		}
	}
	if len(beside) == 1 {
		return beside[0]
	}
	return ""
}

func hexOf(b []byte) string {
	const digits = "0123456789abcdef"
	var s []byte
	for _, c := range b {
		s = append(s, digits[c>>4], digits[c&15])
	}
	return string(s)
}

// pathMTUs are the MTUs of InfiniBand's transport, in bytes.
var pathMTUs = []int{4096, 2048, 1024, 512, 256}

// roceHeaders is the room for headers that the kernel subtracts when it chooses a RoCE port's MTU: GRH or IPv6,
// UDP, BTH, the longest extended headers, and ICRC.
const roceHeaders = 40 + 8 + 12 + 4 + 28 + 4

// PathMTU returns the path MTU that the kernel gives a RoCE port on an interface whose packets have
// mtu bytes; 0: they are too short.
func PathMTU(mtu int) int {
	for _, m := range pathMTUs {
		if m+roceHeaders <= mtu {
			return m
		}
	}
	return 0
}

// LinkMTU returns how many bytes a packet needs to have for a path MTU.
func LinkMTU(path int) int { return path + roceHeaders }
