// SPDX-License-Identifier: Apache-2.0

package rdmasys

import (
	"path"
	"strconv"
)

const maxInterfaces = 4096

func (r *reader) interfaces(src *Source) (found []Interface) {
	const net = "sys/class/net"
	for _, name := range r.list(net, maxInterfaces) {
		at := path.Join(net, name)
		mtu := parseNumber(r.text(path.Join(at, "mtu")))
		if mtu < 0 {
			continue // bonding_masters, a file
		}
		i := Interface{
			Name: name, MTU: int(mtu),
			Type:    int(parseNumber(r.text(path.Join(at, "type")))),
			State:   r.text(path.Join(at, "operstate")),
			Address: r.text(path.Join(at, "address")),
			Driver:  parseDriver(r.text(path.Join(at, "device/uevent"))),
		}
		for _, role := range []string{"roce_np", "roce_rp"} {
			if e, ok := r.ecn(path.Join(at, "ecn", role, "enable")); ok {
				i.ECN = append(i.ECN, ECN{role, e})
			}
		}
		if src.PFC != nil && i.Type == TypeEthernet {
			i.PFC, _ = src.PFC(name) // drivers without it say so with many different errors
		}
		found = append(found, i)
	}
	if src.Addrs != nil {
		addrs, err := src.Addrs()
		r.unread("the addresses of interfaces", err)
		for i := range found {
			found[i].Addrs = addrs[found[i].Name]
		}
	}
	return found
}

// ecn reads a folder of mlx5_core that has a file for each priority.
func (r *reader) ecn(folder string) (enabled uint8, ok bool) {
	for priority := range 8 {
		switch r.text(path.Join(folder, strconv.Itoa(priority))) {
		case "1":
			enabled, ok = enabled|1<<priority, true
		case "0":
			ok = true
		}
	}
	return enabled, ok
}

// Priorities returns the numbers of the bits that are set.
func Priorities(mask uint8) (all []int) {
	for p := range 8 {
		if mask&(1<<p) != 0 {
			all = append(all, p)
		}
	}
	return all
}
