// SPDX-License-Identifier: Apache-2.0

package cdevices

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Sysfs is the picture of devices that the kernel would show in /sys and /dev. Unknown values of a device have
// no files.
type Sysfs struct {
	Files map[string]string // text by path; a path that ends in a dot is a folder
	Links map[string]string // where a symbolic link leads
}

const (
	class   = "sys/class/infiniband/"
	uverbs  = "sys/class/infiniband_verbs/"
	devices = "dev/infiniband/"
	bus     = "sys/devices/pciffff:00/"
)

// NewSysfs returns a description without devices.
func NewSysfs() *Sysfs {
	return &Sysfs{
		Files: map[string]string{
			class + ".":                            "",
			uverbs + "abi_version":                 "6\n",
			"sys/class/infiniband_mad/abi_version": "5\n",
		},
		// Dummy devices: programs check whether they may open them.
		Links: map[string]string{devices + "rdma_cm": os.DevNull},
	}
}

// MaxText is the longest text of a device that programs take, in bytes (IB_DEVICE_NODE_DESC_MAX).
const MaxText = 64

// Add describes a device as number index of the devices that programs see.
func (sys *Sysfs) Add(index int, as Device, dev *verbs.Device) error {
	name := as.Name
	p, err := dev.Port(1)
	if err != nil {
		return err
	}
	gids, err := dev.GIDs(1)
	if err != nil {
		return err
	}
	keys, err := dev.PKeys(1)
	if err != nil {
		return err
	}
	a := dev.Query()
	s := sys.Files
	d := class + name + "/"
	s[d+"node_type"] = "1: CA\n"
	if a.Transport == verbs.TransportIWARP {
		s[d+"node_type"] = "4: RNIC\n"
	}
	// Where the device is: ibv_devinfo shows board_id, `rdma` and others node_desc.
	s[d+"board_id"] = shortened(as.Address) + "\n"
	s[d+"node_desc"] = shortened("Ramjet "+as.Address) + "\n"
	s[d+"fw_ver"] = a.Firmware + "\n"
	s[d+"hw_rev"] = "0\n"
	s[d+"hca_type"] = "Ramjet " + a.Kind + "\n"
	s[d+"node_guid"], s[d+"sys_image_guid"] = guid(a.NodeGUID), guid(a.SysImageGUID)
	// Programs take the device's place in the tree for a PCI address. Its domain is one that no
	// machine has.
	at := fmt.Sprintf("ffff:%02x:%02x.0", index>>5, index&0x1f)
	sys.Links[d+"device"] = "../../../../" + bus + at
	s[bus+at+"/numa_node"] = "-1\n"
	if p.NetDev != "" {
		s[bus+at+"/net/"+p.NetDev+"/."] = ""
	}

	port := d + "ports/1/"
	s[port+"state"], s[port+"phys_state"] = "1: DOWN\n", "3: Disabled\n"
	if p.State == verbs.PortActive {
		s[port+"state"], s[port+"phys_state"] = "4: ACTIVE\n", "5: LinkUp\n"
	}
	s[port+"link_layer"] = p.Link.String() + "\n"
	s[port+"rate"] = fmt.Sprintf("%g Gb/sec\n", float64(Speed(p.SpeedMbps))/1000)
	s[port+"lid"], s[port+"sm_lid"] = fmt.Sprintf("%#x\n", p.LID), fmt.Sprintf("%#x\n", p.SMLID)
	s[port+"lid_mask_count"], s[port+"sm_sl"] = fmt.Sprintf("%d\n", p.LMC), fmt.Sprintf("%d\n", p.SL)
	s[port+"cap_mask"] = "0x04010000\n" // a connection manager; GIDs of IP addresses
	if p.Subnet != (verbs.SubnetPort{}) {
		subnetPort(s, port, &p)
	}
	for _, g := range gids {
		i := fmt.Sprint(g.Index)
		s[port+"gids/"+i] = address(g.GID)
		s[port+"gid_attrs/ndevs/"+i] = g.NetDev + "\n"
		s[port+"gid_attrs/types/"+i] = "IB/RoCE v1\n" // one name for both: link_layer tells them apart
		if g.Type == verbs.GIDRoCEv2 {
			s[port+"gid_attrs/types/"+i] = "RoCE v2\n"
		}
	}
	for i, k := range keys {
		s[port+"pkeys/"+fmt.Sprint(i)] = fmt.Sprintf("0x%04x\n", uint16(k))
	}

	node := fmt.Sprintf("uverbs%d", index)
	s[uverbs+node+"/ibdev"], s[uverbs+node+"/abi_version"] = name+"\n", "1\n"
	sys.Links[devices+node] = os.DevNull
	return nil
}

var (
	portStates = [...]string{"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"}
	physStates = [...]string{"<unknown>", "Sleep", "Polling", "Disabled", "PortConfigurationTraining", "LinkUp",
		"LinkErrorRecovery", "Phy Test"}
	lanes = map[uint8]int{1: 1, 2: 4, 4: 8, 8: 12, 16: 2}
	// laneSpeeds are the signalling rates of lanes, in Mbit/s, and their names.
	laneSpeeds = map[uint8]struct {
		mbps int
		name string
	}{1: {2500, ""}, 2: {5000, " DDR"}, 4: {10000, " QDR"}, 16: {14000, " FDR"}, 32: {25000, " EDR"},
		64: {50000, " HDR"}, 128: {100000, " NDR"}}
)

// Rate returns the rate of a port's signals in Mbit/s: that of a subnet's link, or else [Speed].
func Rate(p *verbs.PortAttr) int64 {
	if r := laneSpeeds[p.Subnet.Speed].mbps * lanes[p.Subnet.Width]; r > 0 {
		return int64(r)
	}
	return Speed(p.SpeedMbps)
}

// subnetPort describes the port of a subnet. Its rate is that of signals, as PortInfo's numbers say.
func subnetPort(s map[string]string, port string, p *verbs.PortAttr) {
	n := &p.Subnet
	if int(p.State) < len(portStates) {
		s[port+"state"] = fmt.Sprintf("%d: %s\n", p.State, portStates[p.State])
	}
	if int(n.PhysState) < len(physStates) {
		s[port+"phys_state"] = fmt.Sprintf("%d: %s\n", n.PhysState, physStates[n.PhysState])
	}
	if l, ok := laneSpeeds[n.Speed]; ok && lanes[n.Width] != 0 {
		s[port+"rate"] = fmt.Sprintf("%g Gb/sec (%dX%s)\n", float64(l.mbps*lanes[n.Width])/1000, lanes[n.Width], l.name)
	}
	s[port+"cap_mask"] = fmt.Sprintf("0x%08x\n", n.CapMask)
}

// shortened returns as much of a text as programs take, with the newline or 0 behind it.
func shortened(s string) string { return s[:min(len(s), MaxText-1)] }

func guid(g uint64) string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x\n", g>>48, g>>32&0xffff, g>>16&0xffff, g&0xffff)
}

func address(g verbs.GID) string {
	s := ""
	for i := 0; i < len(g); i += 2 {
		s += fmt.Sprintf(":%04x", binary.BigEndian.Uint16(g[i:]))
	}
	return s[1:] + "\n"
}

// Write writes the files below root.
func (sys *Sysfs) Write(root string) error {
	make := func(path string, f func(to string) error) error {
		to := filepath.Join(root, filepath.FromSlash(path)) // drops the dot
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		return f(to)
	}
	for path, text := range sys.Files {
		if err := make(path, func(to string) error {
			if strings.HasSuffix(path, "/.") {
				return os.MkdirAll(to, 0o700)
			}
			return os.WriteFile(to, []byte(text), 0o600)
		}); err != nil {
			return err
		}
	}
	for path, target := range sys.Links {
		if err := make(path, func(to string) error { return os.Symlink(target, to) }); err != nil {
			return err
		}
	}
	return nil
}
