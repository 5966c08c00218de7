// SPDX-License-Identifier: Apache-2.0

// Package cdevices knows which devices C programs see, and what they call them: cabi opens
// them, and `ramjet run` describes them to programs that look into sysfs.
package cdevices

import (
	"net"
	"net/netip"
	"os"
	"strings"
)

// Environment is the variable that names the devices, separated by spaces or commas.
const Environment = "RAMJET_DEVICES"

// List returns the devices as package ramjet names them: those of names if set, or a RoCEv2
// device of each address.
func List(names string, set bool) []string {
	if set {
		return strings.FieldsFunc(names, func(r rune) bool { return r == ' ' || r == ',' })
	}
	var all []string
	ifs, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for _, i := range ifs {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err != nil || p.Addr().IsLinkLocalUnicast() && p.Addr().Is6() {
				continue // a link-local address is good for its link only
			}
			all = append(all, "roce:"+p.Addr().Unmap().String())
		}
	}
	return all
}

// Listed is List of the environment.
func Listed() []string { return List(os.LookupEnv(Environment)) }

// Name is what C programs call a device. Many give a colon a meaning of their own.
func Name(device string) string { return strings.NewReplacer(":", "_", "%", "_").Replace(device) }
