// SPDX-License-Identifier: Apache-2.0

package rdmasys

import (
	"errors"
	"io/fs"
	"net/netip"
)

// System is the state of RDMA in an operating system at one time.
type System struct {
	Kernel string `json:"kernel"` // its release, such as 6.12.0; empty: not Linux
	// the file or variable that says that this is a container; empty: it is not known to be one
	Container  string      `json:"container,omitempty"`
	Devices    []Device    `json:"devices"`
	Interfaces []Interface `json:"interfaces"`
	Modules    Modules     `json:"modules"`
	Files      []File      `json:"files"`             // below /dev/infiniband
	Limits     []RDMALimit `json:"limits,omitempty"`  // of the control groups
	Memlock    Memlock     `json:"memlock"`           // of this process
	Filters    []Filter    `json:"filters,omitempty"` // of packets that come in
	Ports      []UDPPort   `json:"udp_4791,omitempty"`
	Parameters Parameters  `json:"parameters"`
	Offloads   *Offloads   `json:"offloads,omitempty"` // nil: not known
	Injected   *Injected   `json:"injected,omitempty"` // nil: the environment injects no libraries
	Group      Group       `json:"control_groups"`
	SharedMem  int64       `json:"dev_shm_bytes"` // the size of /dev/shm; -1: not known
	Unread     []Unread    `json:"unread,omitempty"`
}

// Offloads are the offloads of the system's UDP sockets.
type Offloads struct {
	GSO bool `json:"gso"` // many datagrams leave in one call (Linux 4.18)
	GRO bool `json:"gro"` // many arrive in one (Linux 5.0)
}

// Device is an RDMA device of the kernel.
type Device struct {
	Name     string `json:"name"`
	NodeType string `json:"node_type"` // as sysfs has it: CA, RNIC, Switch, …
	Firmware string `json:"firmware,omitempty"`
	NodeGUID string `json:"node_guid"`
	// of the hardware behind it; empty: it is software, or the driver is not known
	Driver   string `json:"driver,omitempty"`
	Hardware bool   `json:"hardware"`        // there is hardware behind it
	Verbs    string `json:"verbs,omitempty"` // its file below /dev/infiniband; empty: it has none
	Ports    []Port `json:"ports"`
}

// IWARP reports whether the device speaks iWARP.
func (d *Device) IWARP() bool { return d.NodeType == "RNIC" }

// Port is a port of a device.
type Port struct {
	Number    int    `json:"number"`
	LinkLayer string `json:"link_layer"` // InfiniBand or Ethernet
	State     string `json:"state"`      // DOWN, INIT, ARMED, ACTIVE
	Physical  string `json:"physical_state"`
	Rate      string `json:"rate"`
	LID       int    `json:"lid,omitempty"`
	SMLID     int    `json:"sm_lid,omitempty"` // of the subnet manager; 0: none has been here
	NetDev    string `json:"netdev,omitempty"`
	CMType    string `json:"default_roce_mode,omitempty"` // the type of GID that the kernel's connection manager uses
	GIDs      []GID  `json:"gids"`
}

// Active reports whether the port can send.
func (p *Port) Active() bool { return p.State == "ACTIVE" }

// GID is an entry of a port's GID table.
type GID struct {
	Index  int        `json:"index"`
	Addr   netip.Addr `json:"gid"`  // an IPv4 address as such
	Type   string     `json:"type"` // "RoCE v2", "IB/RoCE v1"; empty: the kernel does not say
	NetDev string     `json:"netdev,omitempty"`
}

// RoCEv2 is the type of a GID for packets in UDP, as the kernel writes it.
const RoCEv2 = "RoCE v2"

// Interface is a network interface.
type Interface struct {
	Name    string         `json:"name"`
	Type    int            `json:"type"` // ARPHRD_…: 1 is Ethernet, 32 InfiniBand
	MTU     int            `json:"mtu_bytes"`
	State   string         `json:"state"` // operstate: up, down, lowerlayerdown, unknown
	Address string         `json:"address,omitempty"`
	Driver  string         `json:"driver,omitempty"`
	Addrs   []netip.Prefix `json:"addrs"`
	PFC     *PFC           `json:"pfc,omitempty"` // nil: not known
	ECN     []ECN          `json:"ecn,omitempty"`
}

// The types of interfaces that matter.
const (
	TypeEthernet   = 1
	TypeInfiniBand = 32
	TypeLoopback   = 772
)

// PFC is priority flow control (IEEE 802.1Q clause 36).
type PFC struct {
	Classes int   `json:"classes"`    // how many can have it at once
	Enabled uint8 `json:"priorities"` // a bit for each priority
}

// ECN says for which priorities a NIC takes part in congestion control (DCQCN).
type ECN struct {
	Role    string `json:"role"`       // roce_np: notifies senders; roce_rp: reacts to notifications
	Enabled uint8  `json:"priorities"` // a bit for each priority
}

// Modules are the kernel's modules.
type Modules struct {
	Known     bool            `json:"known"`     // the kernel says which are loaded
	Loaded    map[string]bool `json:"loaded"`    // modules for RDMA
	Available map[string]bool `json:"available"` // they can be loaded, or are part of the kernel
}

// Has reports whether a module is loaded or part of the kernel.
func (m *Modules) Has(name string) bool { return m.Loaded[name] }

// File is a file below /dev/infiniband.
type File struct {
	Name    string      `json:"name"`
	Mode    fs.FileMode `json:"mode"`
	Problem error       `json:"-"` // why this process cannot open it
	Text    string      `json:"problem,omitempty"`
}

// Why returns why the file cannot be opened, without its path.
func (f *File) Why() string {
	if p := (*fs.PathError)(nil); errors.As(f.Problem, &p) {
		return p.Err.Error()
	}
	return f.Problem.Error()
}

// RDMALimit holds the limits of a control group for a device.
type RDMALimit struct {
	File    string `json:"file"`
	Device  string `json:"device"`
	Handles int64  `json:"hca_handle"` // how many processes may open it; -1: any number
	Objects int64  `json:"hca_object"` // queue pairs, completion queues, regions, …; -1: any number
}

// Memlock is how much memory this process may pin.
type Memlock struct {
	Known      bool   `json:"known"`
	Bytes      uint64 `json:"bytes"` // the soft limit
	Unlimited  bool   `json:"unlimited"`
	Privileged bool   `json:"privileged"` // the limit does not hold: CAP_IPC_LOCK
}

// Filter is a chain of packet filters that incoming packets go through.
type Filter struct {
	Family string `json:"family"`
	Table  string `json:"table"`
	Chain  string `json:"chain"`
	Drops  bool   `json:"drops"` // packets that no rule admits are dropped
}

// UDPPort is a socket on RoCEv2's UDP port.
type UDPPort struct {
	Addr  netip.Addr `json:"addr"`
	UID   int        `json:"uid"`
	Inode uint64     `json:"inode"`
}

// Parameters are parameters of the kernel; negative: not known.
type Parameters struct {
	RecvBufferMax  int64 `json:"net_core_rmem_max"`
	PtraceScope    int64 `json:"kernel_yama_ptrace_scope"` // -1: the kernel does not restrict it
	UserNamespaces int64 `json:"user_max_user_namespaces"`
	UserNSAllowed  int64 `json:"kernel_apparmor_restrict_unprivileged_userns"` // 1: only programs with a profile
}

// Unread is something that could not be read.
type Unread struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Interface returns an interface by name; nil: there is none.
func (s *System) Interface(name string) *Interface {
	for i := range s.Interfaces {
		if s.Interfaces[i].Name == name {
			return &s.Interfaces[i]
		}
	}
	return nil
}

// Device returns a device by name; nil: there is none.
func (s *System) Device(name string) *Device {
	for i := range s.Devices {
		if s.Devices[i].Name == name {
			return &s.Devices[i]
		}
	}
	return nil
}

// ConnectFile is the file below /dev/infiniband by which programs make connections.
const ConnectFile = "rdma_cm"

// File returns a file below /dev/infiniband by name; nil: there is none.
func (s *System) File(name string) *File {
	for i := range s.Files {
		if s.Files[i].Name == name {
			return &s.Files[i]
		}
	}
	return nil
}

// Barred says why this process cannot use a device and make connections with it: which of the two files it cannot
// open. It is empty if it can.
func (s *System) Barred(device string) string {
	names := []string{ConnectFile}
	if d := s.Device(device); d != nil && d.Verbs != "" {
		names = []string{d.Verbs, ConnectFile}
	}
	for _, name := range names {
		switch f := s.File(name); {
		case f == nil:
			return "/dev/infiniband/" + name + " does not exist"
		case f.Problem != nil:
			return "/dev/infiniband/" + name + " cannot be opened: " + f.Why()
		}
	}
	return ""
}

// TakesPort returns the socket that keeps others from opening RoCEv2's port on every address; nil: there
// is none.
func (s *System) TakesPort() *UDPPort {
	for i := range s.Ports {
		if s.Ports[i].Addr.IsUnspecified() {
			return &s.Ports[i]
		}
	}
	return nil
}

// RXEHasPort reports whether the module of rxe has RoCEv2's port: from when it is loaded until it is
// unloaded, on all addresses, whether it has a device or not.
func (s *System) RXEHasPort() bool {
	taken := s.TakesPort()
	return taken != nil && taken.UID == 0 && s.Modules.Has("rdma_rxe")
}

// Source has the files and calls from which the facts of a System come.
type Source struct {
	Root    fs.FS                                     // the file system from its root
	Open    func(path string) error                   // opens a device file for reading and writing, and closes it
	Addrs   func() (map[string][]netip.Prefix, error) // the addresses of the interfaces
	PFC     func(netdev string) (*PFC, error)
	Memlock func() (Memlock, error)
	Filters func() ([]Filter, error)

	Offloads func() (*Offloads, error)

	Env       func(name string) string // a variable of this process's environment
	SharedMem func() (int64, error)    // the size of /dev/shm
}

// Read reads everything. A function that the source does not have says nothing.
func (src *Source) Read() *System {
	s := &System{}
	r := reader{src.Root, s}
	s.Kernel = r.text("proc/sys/kernel/osrelease")
	s.Container = r.container(src.Env)
	s.Injected = r.injected(src.Env)
	s.Group = r.groupLimits()
	s.Modules = r.modules(s.Kernel)
	s.Interfaces = r.interfaces(src)
	s.Devices = r.devices()
	s.Files = r.files(src.Open)
	s.Limits = r.rdmaLimits()
	s.Ports = r.udpPorts()
	s.Parameters = r.parameters()
	var err error
	if src.Memlock != nil {
		s.Memlock, err = src.Memlock()
		r.unread("the limit of pinned memory", err)
	}
	if src.Filters != nil {
		s.Filters, err = src.Filters()
		r.unread("packet filters", err)
	}
	s.SharedMem = -1
	if src.SharedMem != nil {
		if n, err := src.SharedMem(); err == nil {
			s.SharedMem = n
		}
	}
	if src.Offloads != nil {
		s.Offloads, err = src.Offloads()
		r.unread("offloads of UDP", err)
	}
	return s
}

// ReadDevices reads only the facts for finding a route: devices, their files, interfaces, and the holder of RoCEv2's
// port.
func (src *Source) ReadDevices() *System {
	s := &System{}
	r := reader{src.Root, s}
	s.Interfaces = r.interfaces(&Source{Root: src.Root, Addrs: src.Addrs})
	s.Devices = r.devices()
	s.Files = r.files(src.Open)
	s.Ports = r.udpPorts()
	s.Modules = r.loaded()
	return s
}

// reader reads files into a System.
type reader struct {
	root fs.FS
	s    *System
}

func (r *reader) unread(what string, err error) {
	if err != nil {
		r.s.Unread = append(r.s.Unread, Unread{what, err.Error()})
	}
}
