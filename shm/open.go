// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"

	"github.com/ramjet-rdma/ramjet/internal/core/memorydev"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// Options are optional parameters of Open; nil stands for the zero value.
type Options struct {
	// Dir is a directory in which processes meet, for containers that share it by a mount and have
	// network namespaces of their own. It is empty for processes that share a network namespace.
	Dir string
	// NoCopies has the target's process carry out operations on memory that is not shared, even if
	// the system would let the initiator copy it (process_vm_readv, process_vm_writev).
	NoCopies bool
	// EventsOnly has programs that wait for completions sleep at once. Otherwise they, or the device for
	// them, poll for a while before. Programs that poll are not concerned.
	EventsOnly bool
}

// DefaultAddress is the address of a device that is opened without one.
const DefaultAddress = "127.0.0.1"

// Open opens a device of shared memory. Devices are told apart by addresses, as in other networks; an address need not
// be one of an interface. Without one it is [DefaultAddress]. Options can follow the address, as in
// "127.0.0.1?dir=/run/ramjet&copies=off&wait=events". They override the ones in opt.
//
// Up to 64 devices, usually in several processes, can have one address. Systems other than Linux
// return ErrNotSupported.
func Open(address string, opt *Options) (*verbs.Device, error) {
	addr, o, err := parse(address, opt)
	if err != nil {
		return nil, err
	}
	n, err := newNetwork(addr, o)
	if err != nil {
		return nil, fmt.Errorf("shm: opening %v: %w", addr, err)
	}
	d, err := memorydev.New("shm:"+addr.String(), "shm", guid(addr), oneSided(o), o.EventsOnly, n)
	if err != nil {
		n.Close()
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("64 devices have this address: open another, such as shm:127.0.0.2: %w", err)
		}
		return nil, fmt.Errorf("shm: opening %v: %w", addr, err)
	}
	return statsocket.Publish(driver.NewDevice(d)), nil
}

// parse takes apart a device's name behind the colon.
func parse(address string, opt *Options) (netip.Addr, *Options, error) {
	var o Options
	if opt != nil {
		o = *opt
	}
	address, query, _ := strings.Cut(address, "?")
	for option := range strings.SplitSeq(query, "&") {
		switch name, value, _ := strings.Cut(option, "="); {
		case name == "dir" && value != "":
			o.Dir = value
		case name == "copies" && (value == "on" || value == "off"):
			o.NoCopies = value == "off"
		case name == "wait" && (value == "spin" || value == "events"):
			o.EventsOnly = value == "events"
		case option != "":
			return netip.Addr{}, nil, fmt.Errorf("shm: option %q of the device's name: there are dir, a directory, copies, which is on or off, and wait, which is spin or events", option)
		}
	}
	if address == "" {
		address = DefaultAddress
	}
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return netip.Addr{}, nil,
			fmt.Errorf("shm: %q is no IP address: give one to tell devices apart, such as shm:127.0.0.1", address)
	}
	addr = addr.Unmap().WithZone("")
	if addr.IsUnspecified() || addr.IsMulticast() {
		return netip.Addr{}, nil,
			fmt.Errorf("shm: %v stands for no single device: give another address, such as shm:127.0.0.1", addr)
	}
	return addr, &o, nil
}

// GUID returns the globally unique identifier of the device of an address, whether it is open or not.
func GUID(address string) (uint64, error) {
	addr, _, err := parse(address, nil)
	if err != nil {
		return 0, err
	}
	return guid(addr), nil
}

// guid makes an EUI-64 from an address, marked as locally assigned.
func guid(a netip.Addr) uint64 {
	b := a.As16()
	g := uint64(0x06)
	for _, v := range b[9:] {
		g = g<<8 | uint64(v)
	}
	return g
}
