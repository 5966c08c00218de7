// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"syscall"

	"github.com/ramjet-rdma/ramjet/internal/core/packetdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/congestion"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Options are optional parameters of Open; nil stands for the zero value.
type Options struct {
	Trace *trace.Writer // receives every packet in both directions
	Plain bool          // use the socket as on systems without batching

	// Congestion is the congestion control of queue pairs that choose none, with parameters, such as
	// "dcqcn,rpg_ai_rate=20"; empty: a window for each host. See docs/congestion.md.
	Congestion string
}

// Open opens the RoCEv2 device of a local address, such as "192.0.2.7" or "fd09::1". Options may follow, such as
// "192.0.2.7?cc=dcqcn&rpg_ai_rate=20": a congestion control and its parameters, in place of the ones in opt.
// "192.0.2.7?lanes=2" spreads the queue pairs over two lanes, which work at the same time; see docs/roce.md.
//
// Any address of 127.0.0.0/8 is local on Linux, so every process of a machine can have one of its
// own. On Linux several processes of one user can also open the same address; elsewhere it belongs
// to one process at a time.
func Open(address string, opt *Options) (*verbs.Device, error) {
	if opt == nil {
		opt = &Options{}
	}
	address, query, _ := strings.Cut(address, "?")
	addr, err := parse(address)
	if err != nil {
		return nil, err
	}
	lanes, control, err := opt.parse(query)
	if err != nil {
		return nil, err
	}
	link, err := findLink(addr)
	if err != nil {
		return nil, err
	}
	local := netip.AddrPortFrom(addr, ib.UDPPort)
	p := &port{local: local, link: link, trace: opt.Trace}
	err = p.listen(opt.Plain)
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("roce: %v is not an address of this host: %w", addr, err)
	case errors.Is(err, syscall.EADDRINUSE):
		why := "in use by a process that does not share it or by a kernel device"
		if refused := (*refusedError)(nil); errors.As(err, &refused) {
			why = refused.why
		}
		return nil, fmt.Errorf("roce: UDP port %d of %v is %s: use another address, on Linux any of 127.0.0.0/8: %w",
			ib.UDPPort, addr, why, syscall.EADDRINUSE)
	case err != nil:
		return nil, fmt.Errorf("roce: opening %v: %w", addr, err)
	}
	p.watch = link.watch(addr)
	p.init()
	ports, err := p.withLanes(lanes)
	if err != nil {
		return nil, err
	}
	return statsocket.Publish(driver.NewDevice(packetdev.NewControlled("roce:"+addr.String(), "roce", link.guid(addr),
		ports, control))), nil
}

// GUID returns the globally unique identifier of the device of a local address, whether it is open
// or not.
func GUID(address string) (uint64, error) {
	address, _, _ = strings.Cut(address, "?")
	addr, err := parse(address)
	if err != nil {
		return 0, err
	}
	link, err := findLink(addr)
	if err != nil {
		return 0, err
	}
	return link.guid(addr), nil
}

// parse returns the number of lanes and the congestion control that the options of a device's name choose. Without a
// choice there is one lane, and the congestion control is that of o.
func (o *Options) parse(query string) (lanes int, control *congestion.Choice, err error) {
	lanes, chosen := 1, o.Congestion
	for _, option := range strings.Split(query, "&") {
		switch name, value, _ := strings.Cut(option, "="); {
		case option == "":
		case name == "lanes":
			if lanes, err = strconv.Atoi(value); err != nil || lanes < 1 || lanes > maxLanes {
				return 0, nil, fmt.Errorf("roce: option %q of the device's name: a device has 1 to %d lanes", option,
					maxLanes)
			}
		case name == "cc":
			chosen = value
		case chosen == "":
			return 0, nil, fmt.Errorf("roce: option %q of the device's name: there are lanes, and cc, which chooses a "+
				"congestion control, and then its parameters", option)
		default:
			chosen += "," + option
		}
	}
	if control, err = congestion.Parse(chosen); err != nil {
		return 0, nil, fmt.Errorf("roce: %w", err)
	}
	return lanes, control, nil
}

// parse parses the address of a device.
func parse(address string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return addr, fmt.Errorf("roce: %q is no IP address: give one of this host, such as roce:127.0.0.1", address)
	}
	addr = addr.Unmap()
	if addr.IsUnspecified() || addr.IsMulticast() {
		return addr, fmt.Errorf("roce: %v stands for no single address: give one of this host", addr)
	}
	return addr, nil
}
