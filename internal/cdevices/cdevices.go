// SPDX-License-Identifier: Apache-2.0

// Package cdevices knows which devices C programs see, and what they call them: cabi opens
// them, and `ramjet run` describes them to programs that look into sysfs.
package cdevices

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
)

// Environment is the variable that names the devices, separated by spaces or commas.
const Environment = "RAMJET_DEVICES"

// Device is a device as C programs know it.
type Device struct {
	Name    string // what they call it
	Address string // what package ramjet calls it, such as roce:192.0.2.7
}

// MaxName is how many bytes a name can have (IBV_SYSFS_NAME_MAX, less the 0 at its end).
const MaxName = 63

// List returns the devices of names if set, or a RoCEv2 device of each address. One is named as
// package ramjet names it, or NAME=ADDRESS, for programs that tell their peers the names of their
// devices. The error is of the first that cannot be; the others are returned.
func List(names string, set bool) ([]Device, error) {
	if !set {
		return everywhere(), nil
	}
	var all []Device
	var failed error
	seen := map[string]bool{}
	for _, f := range strings.FieldsFunc(names, func(r rune) bool { return r == ' ' || r == ',' }) {
		d := Device{Address: f}
		if name, address, given := strings.Cut(f, "="); given {
			d = Device{name, address}
		} else {
			d.Name = nameOf(f)
		}
		err := check(d.Name)
		if err == nil && seen[d.Name] {
			err = fmt.Errorf("%q: there is one of that name already", f)
		}
		if err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		seen[d.Name] = true
		all = append(all, d)
	}
	return all, failed
}

// check says what is wrong with a device's name, which stands in paths.
func check(name string) error {
	if name == "" || len(name) > MaxName || name == "." || name == ".." || strings.ContainsAny(name, "/:") {
		return fmt.Errorf("%q is no name for a device: it has 1 to %d bytes and neither / nor a colon", name, MaxName)
	}
	return nil
}

// everywhere is a RoCEv2 device of each address.
func everywhere() []Device {
	var all []Device
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
			at := "roce:" + p.Addr().Unmap().String()
			all = append(all, Device{nameOf(at), at})
		}
	}
	return all
}

// Listed is List of the environment, without what is wrong there.
func Listed() []Device {
	all, _ := List(os.LookupEnv(Environment))
	return all
}

// nameOf is what C programs call a device whose user has not said. Many give a colon a meaning of
// their own.
func nameOf(address string) string { return strings.NewReplacer(":", "_", "%", "_").Replace(address) }
