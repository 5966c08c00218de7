// SPDX-License-Identifier: Apache-2.0

// Package cdevices lists the devices that C programs see, with their names. cabi opens them, and
// `ramjet run` describes them to programs that look into sysfs.
package cdevices

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
)

// Environment is the variable that names the devices, separated by spaces or commas.
const Environment = "RAMJET_DEVICES"

// Device is a device of C programs.
type Device struct {
	Name    string // its name for C programs
	Address string // its name in package ramjet, such as roce:192.0.2.7
}

// List returns the devices of names if set, or a RoCEv2 device of each address. A device is named
// as in package ramjet, or NAME=ADDRESS, for programs that need a particular name. A kind without an
// address, as in iwarp:, stands for its devices of all addresses. The error is that of the first
// impossible device; the others are returned.
func List(names string, set bool) ([]Device, error) { return new(Names).List(names, set) }

// List is the function List for one of several lists in a process: devices keep the names that they had in earlier
// lists.
func (n *Names) List(names string, set bool) ([]Device, error) {
	if !set {
		names = kinds.Default().Name + ":"
	}
	var all []Device
	down := map[string]bool{} // of devices that stand for all addresses
	var failed error
	taken := map[string]bool{}
	for _, f := range fields(names) {
		if kind := kindOf(f); kind != nil {
			all = append(all, ofAllAddresses(kind, down)...)
			continue
		}
		d := parse(f)
		if d.Name != "" || strings.HasPrefix(f, "=") {
			err := check(d.Name)
			if err == nil && taken[d.Name] {
				err = fmt.Errorf("%q: there is one of that name already", f)
			}
			if err != nil {
				failed = cmp.Or(failed, err)
				continue
			}
			taken[d.Name] = true
		}
		all = append(all, d)
	}
	n.number(all, taken) // also interfaces that are down: their devices have the same names when they are up
	return slices.DeleteFunc(all, func(d Device) bool { return down[d.Address] }), failed
}

// kindOf returns the kind that a field names without the IP address that its devices need; nil: it is another field.
// infiniband: and shm: are devices.
func kindOf(f string) *kinds.Kind {
	n, err := kinds.Parse(f)
	if err != nil || n.Address != "" || n.Kind.Soft || n.Kind.Host {
		return nil
	}
	if _, ip := n.Kind.IP("127.0.0.1"); !ip {
		return nil
	}
	return n.Kind
}

func fields(names string) []string {
	return strings.FieldsFunc(names, func(r rune) bool { return r == ' ' || r == ',' })
}

// parse parses a device. Its name is empty if none is given.
func parse(f string) Device {
	// An address may have an = of its own, behind its kind: infiniband:host-1?fabric=lab.
	if name, address, given := strings.Cut(f, "="); given && !strings.Contains(name, ":") {
		return Device{name, address}
	}
	if address, is := fromAddressName(f); is {
		return Device{f, address}
	}
	return Device{Address: f}
}

// ofAllAddresses returns a device of a kind for each address. Devices of loopback addresses come last: many programs
// take the first device, and programs that run on several hosts reach nobody by a loopback address. It adds to down the
// devices whose interface is down.
func ofAllAddresses(kind *kinds.Kind, down map[string]bool) (all []Device) {
	local, err := kind.Local()
	if err != nil {
		return nil
	}
	loopback := map[string]bool{}
	for _, l := range local {
		n := kinds.Name{Kind: kind, Address: l.Address}
		ip, ok := n.IP()
		if ok && ip.Is6() && ip.IsLinkLocalUnicast() {
			continue // a link-local address is valid on its link only
		}
		loopback[n.String()] = ok && ip.IsLoopback()
		all = append(all, Device{Address: n.String()})
		down[n.String()] = !l.Up
	}
	slices.SortStableFunc(all, func(a, b Device) int {
		switch {
		case loopback[a.Address] == loopback[b.Address]:
			return 0
		case loopback[b.Address]:
			return -1
		}
		return 1
	})
	return all
}

// Speed returns the speed, in Mbit/s, that C programs see for a port whose interface has the speed
// mbps, or none that is known (0). Programs choose by it how to move data: UCX uses READs for
// messages that take longer to copy than the speed allows. An interface without a speed, such as
// loopback, is as fast as the processors: 100 Gbit/s is the nearest of the defined link speeds.
func Speed(mbps int64) int64 {
	if mbps <= 0 {
		return 100_000
	}
	return mbps
}
