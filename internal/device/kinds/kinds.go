// SPDX-License-Identifier: Apache-2.0

// Package kinds is the table of kinds of device: how to open one, which exist on this host, what it
// needs, and its texts for people and programs. Package ramjet opens devices by it, the command
// lists, completes and demonstrates them by it, and C programs see the devices that it has.
//
// A new fabric is one more row of [Table], with a [Naming] of its own if its devices are not named
// by IP addresses. Nothing registers itself, and no other device is opened in place of the named
// one. The abilities of an open device do not follow from this table, nor from its kind, but from
// verbs.DeviceAttr, its Transport and Caps.
package kinds

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"runtime"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/core/calllog"
	"github.com/ramjet-rdma/ramjet/iwarp"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/roce1"
	"github.com/ramjet-rdma/ramjet/shm"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// Kind is a row of the table.
type Kind struct {
	Name       string          // the part before the colon
	Text       string          // its protocols, for people
	Bound      string          // the bottleneck of its speed, for people
	Passes     string          // the packets that firewalls have to admit; empty: none leaves the host
	Transport  verbs.Transport // of its devices
	TLS        bool            // it needs certificates: Options.TLS, or the files that the environment names
	Controlled bool            // its devices have a choice of congestion controls
	Slow       bool            // demonstrations do less with it
	Host       bool            // its devices reach only others of this host
	Link       bool            // its devices reach only hosts on the same link
	Soft       bool            // its devices are on a fabric that a process runs, apart from the host's networks
	Hardware   bool            // its devices are the kernel's RDMA devices, by the names that sysfs has
	Listed     bool            // List has its devices; the others can be named but are not listed
	Port       uint16          // the UDP port that its devices need of their address; 0: none
	Needs      string          // rights that a process needs to open one; empty: none
	Beyond     string          // a sentence on devices that can be opened but are not listed; empty: there are none
	Unrecorded string          // why its packets cannot be recorded, and what to do instead; empty: they can
	Naming                     // the part after the colon

	Open func(n Name, o *Options) (*verbs.Device, error)
	GUID func(address string) (uint64, error) // of a device, whether it is open or not
}

// Naming is the part after the colon in the names of devices, without options.
type Naming interface {
	// Local returns the devices of this host, without opening any.
	Local() ([]Local, error)
	// Spare returns at least least addresses that are not in use, as far as can be known, or an
	// error that says how to get them.
	Spare(least int) ([]string, error)
	// At returns the address of the device that has a host's IP address.
	At(ip string) string
	// IP returns the IP address of a device. It returns false if there is none.
	IP(address string) (netip.Addr, bool)
}

// Local is a device that this host could have.
type Local struct {
	Address string // the part after the colon
	NetDev  string // the network interface; empty: none
	LinkMTU int    // bytes of an IP packet
	Up      bool   // the interface is up
	GID     verbs.GID
}

// Options are the options of Open.
type Options struct {
	Trace *trace.Writer // receives every packet, or every stream
	// for kinds with TLS, see iwarp.Options; nil: from the files named by the environment
	TLS *tls.Config
	// opens devices of the kernel; nil: as package kernel does, if the program has it
	Kernel  func(name string) (*verbs.Device, error)
	Log     *slog.Logger                         // receives failures of queue pairs; nil: nothing
	Refused func(peer netip.AddrPort, err error) // for kinds with TLS: called with peers that were rejected

	Congestion string // of kinds that have a choice; empty: as the environment says

	Faults   string    // of the network, of verbs: docs/faults.md; empty: as the environment says
	FaultLog io.Writer // receives faults that strike; nil: as the environment says

	NoWait bool // a device that joins a fabric elsewhere is opened although that is not there

	NIC bool // the device is as strict as a NIC: docs/nic.md; false: as the environment says

	Calls       io.Writer // receives a line for each call; nil: as the environment says
	CallFilter  string    // of Calls: docs/log.md
	CallsLogged bool      // somebody else logs the calls: C programs are seen where they call

	Checks       io.Writer // receives reports of mistakes in the use of the device; nil: as the environment says
	CheckOptions string    // of Checks: docs/check.md
}

// Table has all kinds. The first is the default.
var Table = []*Kind{
	{
		Name: "roce", Text: "RoCEv2: UDP port 4791", Passes: "UDP port 4791", Transport: verbs.TransportIB,
		Port: 4791, Controlled: true, Listed: true,
		Beyond: ofLinux("Every other address of 127.0.0.0/8 can be opened too: as many devices as wanted, for tests on one machine."),
		Bound:  "both processes play the NIC, and each packet passes the kernel's sockets",
		Naming: ipNaming{}, Open: openRoCE, GUID: roce.GUID,
	},
	{
		Name: "roce1", Text: "RoCE v1: InfiniBand packets in Ethernet frames", Passes: "Ethernet frames of type 0x8915",
		Transport: verbs.TransportIB, Link: true, Needs: "CAP_NET_RAW", Listed: runtime.GOOS == "linux",
		Beyond: ofLinux("Ethernet interfaces can be opened as roce1: by processes with CAP_NET_RAW."),
		Bound:  "both processes play the NIC, and each frame passes the kernel",
		Naming: linkNaming{}, Open: openRoCE1, GUID: roce1.GUID,
	},
	{
		Name: "infiniband", Text: "InfiniBand on a fabric of ramjet fabric", Transport: verbs.TransportIB,
		Soft: true, Listed: runtime.GOOS == "linux",
		Beyond: ofLinux("Adapters of fabrics that ramjet fabric runs can be opened as infiniband:ADAPTER; infiniband:?join=HOST:PORT joins a fabric elsewhere."),
		Bound:  "each packet passes a fabric that another process plays",
		Naming: fabricNaming{}, Open: openInfiniBand, GUID: adapterGUID,
	},
	{
		Name: "iwarp", Text: "iWARP: TCP", Passes: "its TCP port", Transport: verbs.TransportIWARP,
		Listed: runtime.GOOS == "linux", // iWARP over TCP is Linux's
		Bound:  "both processes play the NIC, on top of the kernel's TCP",
		Naming: ipNaming{}, Open: openIWARP, GUID: iwarp.GUID,
	},
	{
		Name: "iwarps", Text: "iWARP: inside TLS 1.3", Passes: "its TCP port", Transport: verbs.TransportIWARP,
		TLS:    true,
		Beyond: ofLinux("All addresses can be opened as iwarps: as well, iWARP inside TLS (see --tls-cert)."),
		Bound:  "both processes play the NIC, encrypt, and use the kernel's TCP",
		Naming: ipNaming{}, Open: openIWARPS, GUID: iwarp.GUID,
	},
	{
		Name: "iwarp+sctp", Text: "iWARP: over SCTP in UDP port 9899", Passes: "UDP port 9899",
		Transport: verbs.TransportIWARP, Slow: true,
		Beyond: "All addresses can be opened as iwarp+sctp: as well, iWARP over SCTP.",
		Bound:  "both processes play the NIC and SCTP, in packets of the kernel's UDP",
		Naming: ipNaming{}, Open: openSCTP, GUID: iwarp.GUID,
	},
	{
		Name: "shm", Text: "shared memory between processes of this host", Transport: verbs.TransportIB,
		Host: true, Unrecorded: unrecordedMemory, Listed: runtime.GOOS == "linux",
		Beyond: ofLinux("Every other address can be opened as shm: too, to tell devices of this host apart."),
		Bound:  "the writer copies straight into the target's memory, which is the bound",
		Naming: memoryNaming{}, Open: openMemory, GUID: shm.GUID,
	},
	{
		Name: "kernel", Text: "RDMA hardware and other devices of the kernel",
		Passes: "what the device's protocol needs", Transport: verbs.TransportIB,
		Hardware: true, Unrecorded: unrecordedKernel, Listed: runtime.GOOS == "linux",
		Beyond: ofLinux(
			"RDMA devices of the kernel can be opened as kernel:NAME, by the names that `rdma link` lists."),
		Bound:  "the device, or the processor where the kernel plays it",
		Naming: kernelNames, Open: openKernel, GUID: kernelGUID,
	},
}

// ofLinux returns sentence on Linux, and an empty one elsewhere.
func ofLinux(sentence string) string {
	if runtime.GOOS != "linux" {
		return ""
	}
	return sentence
}

// Default returns the default kind.
func Default() *Kind { return Table[0] }

// Names returns the names of all kinds.
func Names() (names []string) {
	for _, k := range Table {
		names = append(names, k.Name)
	}
	return names
}

// Find returns the kind of a name. The error lists the kinds.
func Find(name string) (*Kind, error) {
	for _, k := range Table {
		if k.Name == name {
			return k, nil
		}
	}
	names := Names()
	last := len(names) - 1
	return nil, fmt.Errorf("no device kind %q: there are %s and %s", name, strings.Join(names[:last], ", "),
		names[last])
}

// Name is the parsed name of a device.
type Name struct {
	Kind    *Kind
	Address string // the part after the colon, with options
}

// Parse parses the name of a device, such as roce:192.0.2.7.
func Parse(name string) (Name, error) {
	kind, address, ok := strings.Cut(name, ":")
	if !ok {
		meant := meantBy(name)
		if meant == "" {
			meant = fmt.Sprintf(", such as %v", Default().NameAt("127.0.0.1"))
		}
		return Name{}, fmt.Errorf("%q is no device name: it needs a kind and a colon%s", name, meant)
	}
	k, err := Find(kind)
	if err != nil {
		return Name{}, fmt.Errorf("%q: %w%s", name, err, meantBy(name))
	}
	return Name{k, address}, nil
}

// NameAt returns the name of the kind's device on a host's IP address.
func (k *Kind) NameAt(ip string) Name { return Name{k, k.At(ip)} }

// String returns the complete name.
func (n Name) String() string { return n.Kind.Name + ":" + n.Address }

// IP returns the IP address of the device. It returns false if there is none.
func (n Name) IP() (netip.Addr, bool) {
	address, _ := n.Split()
	if n.Kind.Soft { // an option says on which fabric the address is
		address = n.Address
	}
	return n.Kind.IP(address)
}

// fabricAddresser is a [Naming] of devices whose addresses are not the host's.
type fabricAddresser interface {
	owns(address string, a netip.Addr) bool
	reaches(address string, a netip.Addr) bool
}

// Owns reports whether an address is the device's: its IP address or, on a fabric apart from the host's
// networks, one of its GIDs.
func (n Name) Owns(a netip.Addr) bool {
	if f, ok := n.Kind.Naming.(fabricAddresser); ok {
		return f.owns(n.Address, a)
	}
	ip, ok := n.IP()
	return ok && ip.WithZone("") == a.WithZone("")
}

// Reaches reports whether an address is one of the device's fabric, if that is apart from the host's
// networks.
func (n Name) Reaches(a netip.Addr) bool {
	f, ok := n.Kind.Naming.(fabricAddresser)
	return ok && f.reaches(n.Address, a)
}

// Split returns the address and the options behind it, with their question mark.
func (n Name) Split() (address, options string) {
	address, options, found := strings.Cut(n.Address, "?")
	if found {
		options = "?" + options
	}
	return address, options
}

// GUID returns the globally unique identifier of the device, whether it is open or not.
func (n Name) GUID() (uint64, error) { return n.Kind.GUID(n.Address) }

// Open opens the device.
func (n Name) Open(o *Options) (*verbs.Device, error) {
	if o.Trace != nil && n.Kind.Unrecorded != "" {
		return nil, fmt.Errorf("ramjet: %q: %w: %s", n.String(), verbs.ErrNotSupported, n.Kind.Unrecorded)
	}
	if o.Congestion != "" && !n.Kind.Controlled {
		return nil, fmt.Errorf("ramjet: %q: %w: it has no choice of congestion controls, devices of kind %v have",
			n.String(), verbs.ErrNotSupported, Default().Name)
	}
	strict, err := o.nic()
	if err != nil {
		return nil, fmt.Errorf("ramjet: %w", err)
	}
	set, err := o.faults()
	if err != nil {
		return nil, fmt.Errorf("ramjet: %w", err)
	}
	calls, err := o.callLog()
	if err != nil {
		return nil, fmt.Errorf("ramjet: %w", err)
	}
	checker, err := o.checker()
	if err != nil {
		return nil, fmt.Errorf("ramjet: %w", err)
	}
	dev, err := n.Kind.Open(n, o)
	if err != nil {
		return nil, err
	}
	if calls != nil {
		driver.LogCalls(dev, calllog.ForGo{Log: calls})
	}
	if checker != nil {
		checker.Watch(dev)
	}
	if strict {
		err = actAsNIC(dev)
	}
	if err == nil && o.Log != nil {
		err = dev.LogFailures(o.Log)
	}
	if err == nil && set != nil {
		err = setFaults(dev, set, o.FaultLog)
	}
	if err != nil {
		dev.Close()
		return nil, err
	}
	return dev, nil
}

// Open opens a device by its name. An empty name stands for the device that the environment names.
func Open(name string, o *Options) (*verbs.Device, error) {
	if name == "" {
		n, set, err := FromEnvironment()
		switch {
		case err != nil:
			return nil, fmt.Errorf("ramjet: %w", err)
		case !set:
			return nil, fmt.Errorf("ramjet: no device is named, and %s names none either: set it to such as %v",
				DeviceVariable, Default().NameAt("192.0.2.7"))
		}
		dev, err := n.Open(o)
		if err != nil {
			return nil, fmt.Errorf("ramjet: %s: %w", DeviceVariable, err)
		}
		return dev, nil
	}
	n, err := Parse(name)
	if err != nil {
		return nil, fmt.Errorf("ramjet: %w", err)
	}
	return n.Open(o)
}
