// SPDX-License-Identifier: Apache-2.0

package roce1

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/ramjet-rdma/ramjet/internal/core/packetdev"
	"github.com/ramjet-rdma/ramjet/internal/system/etherring"
	"github.com/ramjet-rdma/ramjet/internal/system/linkwatch"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

const (
	defaultSlots = 1024
	// longestFrame is one of the largest path MTU: an interface's MTU may grow while it is open.
	longestFrame = etherLen + headers + 4096
	// sendBuffer is the number of bytes that may wait at the interface, the kernel's overhead included: a few batches.
	sendBuffer = 4 << 20
)

// Open opens the RoCE v1 device of an Ethernet interface, such as "eth0", or "eth0.100" for a VLAN. It
// belongs to one process at a time. The error wraps EPERM where the process lacks CAP_NET_RAW.
func Open(iface string, opt *Options) (*verbs.Device, error) {
	if opt == nil {
		opt = &Options{}
	}
	if err := Permitted(); err != nil {
		return nil, fmt.Errorf("roce1: opening %s: %w", iface, err)
	}
	w, err := find(iface)
	if err != nil {
		return nil, err
	}
	link := w.Link()
	p := &port{name: iface, watch: w, trace: opt.Trace}
	fail := func(format string, a ...any) (*verbs.Device, error) {
		w.Close()
		p.claim.release()
		return nil, fmt.Errorf("roce1: "+format, a...)
	}
	if p.claim, err = take(link.Index); err != nil {
		return fail("opening %s: %w", iface, err)
	}
	slots := opt.Slots
	if slots <= 0 {
		slots = defaultSlots
	}
	p.sock, err = etherring.Open(link.Index, EtherType,
		etherring.Options{Slots: slots, FrameBytes: longestFrame, SendBuffer: sendBuffer})
	if err != nil {
		return fail("opening %s: %w", iface, err)
	}
	p.init(link)
	return statsocket.Publish(driver.NewDevice(packetdev.New("roce1:"+iface, "roce1", eui64(link.MAC), p))), nil
}

// find finds an interface.
func find(name string) (*linkwatch.Interface, error) {
	w, err := linkwatch.NewInterface(name)
	switch {
	case errors.Is(err, linkwatch.ErrNotEthernet):
		return nil, fmt.Errorf("roce1: %s is %w: `ramjet devices` lists those that can be opened", name, err)
	case err != nil:
		return nil, fmt.Errorf("roce1: %q is no network interface of this host, which `ip link` lists: %w", name, err)
	}
	return w, nil
}

// GUID returns the globally unique identifier of the device of an interface, whether it is open or
// not.
func GUID(iface string) (uint64, error) {
	i, err := net.InterfaceByName(iface)
	if err != nil {
		return 0, fmt.Errorf("roce1: %s: %w", iface, err)
	}
	if len(i.HardwareAddr) != len(mac{}) {
		return 0, fmt.Errorf("roce1: %s is %w", iface, linkwatch.ErrNotEthernet)
	}
	return eui64(mac(i.HardwareAddr)), nil
}

// Permitted reports whether this process may open devices. The error names the missing right, and how to get it.
func Permitted() error {
	err := etherring.Permitted()
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		return fmt.Errorf("raw Ethernet frames take the capability CAP_NET_RAW: "+
			"run with sudo, give it to the program (setcap cap_net_raw+ep FILE), or to its container (--cap-add NET_RAW): %w", err)
	case errors.Is(err, syscall.EAFNOSUPPORT):
		return fmt.Errorf("the system has no packet sockets (CONFIG_PACKET): %w", err)
	}
	return err
}

// Pair returns two interfaces of this host that are each other's peers and are up; false: there are
// none.
func Pair() (a, b string, ok bool, err error) { return linkwatch.Pair() }
