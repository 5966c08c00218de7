// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/system/rdmasys"
)

// port checks a port of a device.
func (d *diagnosis) port(dev *rdmasys.Device, p *rdmasys.Port) {
	if !p.Active() {
		d.link(dev, p)
		return
	}
	switch {
	case p.LinkLayer == "InfiniBand":
		if strings.Contains(p.Rate, "(1X") {
			d.note(portName(dev, p), "the link has one lane of four: "+p.Rate,
				"A bad cable or connector makes a link so narrow.",
				"ibportstate -D 0 "+fmt.Sprint(p.Number)+"    # widths: supported, enabled, active")
		}
	case dev.IWARP():
		d.netdev(dev, p)
	default:
		if d.netdev(dev, p) {
			d.gids(dev, p)
			d.mtu(dev, p)
			d.flow(dev, p)
		}
		if strings.Contains(p.CMType, "v1") {
			d.problem(portName(dev, p), "librdmacm connects by RoCE v1 here: default_roce_mode is "+p.CMType,
				"No router forwards RoCE v1, and peers that only have RoCE v2 do not answer.",
				fmt.Sprintf("cma_roce_mode -d %s -p %d -m 2", dev.Name, p.Number),
				fmt.Sprintf("echo 'RoCE v2' >/sys/kernel/config/rdma_cm/%s/ports/%d/default_roce_mode", dev.Name,
					p.Number))
		}
	}
}

func portName(dev *rdmasys.Device, p *rdmasys.Port) string {
	return fmt.Sprintf("%s port %d", dev.Name, p.Number)
}

// link says why a port is not active. A port without a cable is a problem only if no other is active.
func (d *diagnosis) link(dev *rdmasys.Device, p *rdmasys.Port) {
	what := fmt.Sprintf("it is %s, its link %s", p.State, p.Physical)
	if p.LinkLayer == "InfiniBand" {
		switch {
		case p.Physical == "LinkUp":
			d.problem(portName(dev, p), what+": no subnet manager has configured it",
				"Until one has, the port has no LID and carries no data.", "sminfo    # whether the subnet has one",
				"systemctl start opensm    # on one host of the subnet, or on a switch")
			return
		case p.Physical == "Disabled":
			d.down(dev, p, what, "ibportstate -D 0 "+fmt.Sprint(p.Number)+" enable")
		default:
			d.down(dev, p, what, "ibstat "+dev.Name+"    # then cable and switch: nothing answers there")
		}
		return
	}
	mend := []string{"ip link    # which interface is down, and why"}
	if p.NetDev != "" {
		mend = []string{"ip link set dev " + p.NetDev + " up",
			"ethtool " + p.NetDev + "    # if it stays down: is there a cable, and a peer?"}
	}
	d.down(dev, p, what, mend...)
}

func (d *diagnosis) down(dev *rdmasys.Device, p *rdmasys.Port, what string, mend ...string) {
	other := slices.ContainsFunc(d.sys.Devices, func(v rdmasys.Device) bool {
		return slices.ContainsFunc(v.Ports, func(q rdmasys.Port) bool { return q.Active() })
	})
	if other {
		d.note(portName(dev, p), what, "Nothing can be sent by it; other ports are active.", mend...)
		return
	}
	d.problem(portName(dev, p), what, "Nothing can be sent by it, and no other port is active.", mend...)
}

// netdev checks that the interface of a port is of this network namespace.
func (d *diagnosis) netdev(dev *rdmasys.Device, p *rdmasys.Port) bool {
	if p.NetDev == "" || d.sys.Interface(p.NetDev) != nil {
		return true
	}
	mend := "ip link set dev " + p.NetDev + " netns $$    # where the interface is, to this shell's namespace"
	if d.sys.Container != "" {
		mend = "docker run --network=host …    # or give the container the interface"
	}
	d.problem(portName(dev, p), "its interface "+p.NetDev+" is not in this network namespace",
		"A GID can be used only where its interface is, and no route from here leads to it.", mend)
	return false
}

// gids compares the GID table with the addresses of the interface.
func (d *diagnosis) gids(dev *rdmasys.Device, p *rdmasys.Port) {
	n := d.sys.Interface(p.NetDev)
	if n == nil {
		return
	}
	has := func(a netip.Addr, v2 bool) bool {
		return slices.ContainsFunc(p.GIDs,
			func(g rdmasys.GID) bool { return g.Addr == a && (!v2 || g.Type == rdmasys.RoCEv2) })
	}
	usable := false
	for _, prefix := range n.Addrs {
		a := prefix.Addr()
		switch usable = usable || !a.IsLinkLocalUnicast(); {
		case has(a, true):
		case has(a, false):
			d.problem(portName(dev, p), fmt.Sprintf("its GID of %v is of type RoCE v1 only", a),
				"No router forwards RoCE v1, and peers that only have RoCE v2 do not answer.",
				"dmesg | grep -i roce    # does the NIC have RoCE v2, is it switched off?")
		case !a.IsLinkLocalUnicast():
			d.problem(portName(dev, p), fmt.Sprintf("%s has the address %v, and the GID table does not", n.Name, a),
				"Programs cannot send from an address without a GID.",
				fmt.Sprintf("ip addr del %v dev %s && ip addr add %v dev %s", prefix, n.Name, prefix, n.Name))
		}
	}
	if !usable {
		d.note(portName(dev, p), n.Name+" has no address but link-local ones",
			"Only hosts of the same link can be reached, and only by GIDs that name the interface.",
			"ip addr add 192.0.2.7/24 dev "+n.Name+"    # an address of yours")
	}
}

// mtu reports a path MTU that is shorter than it needs to be: it is the next smaller one below the interface's MTU
// less the headers.
func (d *diagnosis) mtu(dev *rdmasys.Device, p *rdmasys.Port) {
	n := d.sys.Interface(p.NetDev)
	if n == nil {
		return
	}
	if path := rdmasys.PathMTU(n.MTU); path < 4096 {
		d.note(portName(dev, p), fmt.Sprintf("the MTU of %s is %d, so the path MTU is %d", n.Name, n.MTU, path),
			fmt.Sprintf("RDMA has up to 4096, which takes an MTU of %d or more: fewer packets, less work for each byte. Both hosts and all switches between them need it.", rdmasys.LinkMTU(4096)),
			"ip link set dev "+n.Name+" mtu 9000")
	}
}

// flow reports hardware on Ethernet that neither pauses its peers (PFC) nor slows them down (ECN).
func (d *diagnosis) flow(dev *rdmasys.Device, p *rdmasys.Port) {
	n := d.sys.Interface(p.NetDev)
	if n == nil || !dev.Hardware {
		return
	}
	why := "RoCE resends everything after a lost packet on most NICs. Switches lose packets when several hosts send to one."
	if n.PFC != nil && n.PFC.Enabled == 0 {
		d.note(n.Name, "priority flow control (PFC) is off for all priorities",
			why+" The switches need the same setting.", "dcb pfc set dev "+n.Name+" prio-pfc all:off 3:on",
			"mlnx_qos -i "+n.Name+" --pfc 0,0,0,1,0,0,0,0    # with NVIDIA's tools")
	}
	for _, e := range n.ECN {
		if e.Enabled != 0 {
			continue
		}
		d.note(n.Name, "congestion control ("+e.Role+") is off for all priorities",
			"Senders do not slow down when switches mark packets (ECN).",
			fmt.Sprintf("echo 1 >/sys/class/net/%s/ecn/%s/enable/3", n.Name, e.Role))
	}
	if n.PFC != nil && n.PFC.Enabled != 0 {
		for _, e := range n.ECN {
			if e.Enabled != 0 && e.Enabled&n.PFC.Enabled == 0 {
				d.note(n.Name, fmt.Sprintf("PFC is on for priorities %v, and %s for %v",
					rdmasys.Priorities(n.PFC.Enabled), e.Role, rdmasys.Priorities(e.Enabled)),
					"RDMA's packets are of one priority, which should have both.",
					fmt.Sprintf("echo 1 >/sys/class/net/%s/ecn/%s/enable/%d", n.Name, e.Role,
						rdmasys.Priorities(n.PFC.Enabled)[0]))
			}
		}
	}
}

// filters reports packet filters that drop packets that no rule admits.
func (d *diagnosis) filters() {
	for _, f := range d.sys.Filters {
		if !f.Drops {
			continue
		}
		chain := strings.Join([]string{f.Family, f.Table, f.Chain}, " ")
		d.note("firewall", "the chain "+chain+" drops what no rule admits",
			"RoCEv2 in software, Ramjet's or rxe, needs UDP port 4791; iWARP its TCP port. NICs take their packets before any filter.",
			"nft list chain "+chain+"    # is it admitted?", "nft add rule "+chain+" udp dport 4791 accept")
	}
}
