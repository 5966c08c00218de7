// SPDX-License-Identifier: Apache-2.0

package rdmasys

import (
	"encoding/hex"
	"net/netip"
	"strconv"
	"strings"
)

// parseNumbered parses "4: ACTIVE", a number and its name, of which it returns the name.
func parseNumbered(text string) string {
	if _, name, ok := strings.Cut(text, ":"); ok {
		text = name
	}
	return strings.TrimSpace(text)
}

// parseGID parses a GID in eight groups of hexadecimal digits. It returns false for the zero GID, which
// is an empty entry. An IPv4 address comes as such.
func parseGID(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if strings.Contains(text, "%") || strings.Contains(text, ".") {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(text)
	if err != nil || !a.Is6() || a.IsUnspecified() {
		return netip.Addr{}, false
	}
	return a.Unmap(), true
}

// parseNumber parses a number as the kernel writes it, decimal or with 0x; -1: it is none.
func parseNumber(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 0, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// parseModules returns the names in a text of the format of /proc/modules.
func parseModules(text string) (names []string) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 0 {
			names = append(names, moduleName(f[0]))
		}
	}
	return names
}

// moduleName returns how the kernel writes a module's name, in which files may have dashes.
func moduleName(s string) string { return strings.ReplaceAll(s, "-", "_") }

// parseModuleFiles returns the modules that modules.dep or modules.builtin list, one a line before
// the colon.
func parseModuleFiles(text string) (names []string) {
	for line := range strings.Lines(text) {
		file, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		file = file[strings.LastIndexByte(file, '/')+1:]
		if name, _, ok := strings.Cut(file, ".ko"); ok {
			names = append(names, moduleName(name))
		}
	}
	return names
}

// parseDriver returns the driver that a device's uevent names.
func parseDriver(text string) string {
	for line := range strings.Lines(text) {
		if d, ok := strings.CutPrefix(strings.TrimSpace(line), "DRIVER="); ok {
			return d
		}
	}
	return ""
}

// parseUDP returns the sockets of a port in a text of the format of /proc/net/udp. Addresses are in
// 32-bit groups, each in the order of this machine; all machines that matter are little-endian.
func parseUDP(text string, port uint16) (found []UDPPort) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 10 {
			continue
		}
		addr, number, ok := strings.Cut(f[1], ":")
		n, err := strconv.ParseUint(number, 16, 16)
		if !ok || err != nil || uint16(n) != port {
			continue
		}
		b, err := hex.DecodeString(addr)
		if err != nil || len(b)%4 != 0 {
			continue
		}
		for i := 0; i < len(b); i += 4 {
			b[i], b[i+1], b[i+2], b[i+3] = b[i+3], b[i+2], b[i+1], b[i]
		}
		a, ok := netip.AddrFromSlice(b)
		if !ok {
			continue
		}
		uid, _ := strconv.Atoi(f[7])
		inode, _ := strconv.ParseUint(f[9], 10, 64)
		found = append(found, UDPPort{a, uid, inode})
	}
	return found
}

// parseRDMAMax parses the limits of a control group: "mlx5_0 hca_handle=2 hca_object=max".
func parseRDMAMax(text string) (limits []RDMALimit) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		l := RDMALimit{Device: f[0], Handles: -1, Objects: -1}
		for _, pair := range f[1:] {
			switch name, value, _ := strings.Cut(pair, "="); name {
			case "hca_handle":
				l.Handles = parseNumber(value) // "max" is none
			case "hca_object":
				l.Objects = parseNumber(value)
			}
		}
		limits = append(limits, l)
	}
	return limits
}

// group is a line of /proc/self/cgroup.
type group struct {
	controllers []string // none: version 2
	path        string
}

// parseCgroup parses lines such as "9:devices,rdma:/a" and "0::/a".
func parseCgroup(text string) (groups []group) {
	for line := range strings.Lines(text) {
		_, rest, ok := strings.Cut(strings.TrimSpace(line), ":")
		names, path, ok2 := strings.Cut(rest, ":")
		if !ok || !ok2 || !strings.HasPrefix(path, "/") {
			continue
		}
		g := group{path: path}
		if names != "" {
			g.controllers = strings.Split(names, ",")
		}
		groups = append(groups, g)
	}
	return groups
}

// mount is a line of /proc/self/mountinfo (proc(5)).
type mount struct {
	root, point, kind string
	options           []string // of the file system
}

// parseMounts parses the lines of mountinfo. Mount points with escaped characters are not needed.
func parseMounts(text string) (mounts []mount) {
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(strings.TrimSpace(line), " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 6 || len(g) < 3 || !strings.HasPrefix(f[3], "/") || !strings.HasPrefix(f[4], "/") {
			continue
		}
		mounts = append(mounts, mount{root: f[3], point: f[4], kind: g[0], options: strings.Split(g[2], ",")})
	}
	return mounts
}
