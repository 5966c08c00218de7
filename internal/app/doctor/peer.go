// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/system/rdmasys"
)

// peer checks the way to a peer.
func (d *diagnosis) peer() {
	p := d.facts.Peer
	if p == nil {
		return
	}
	subject := "peer " + p.Addr.String()
	if p.Problem != "" {
		d.problem(subject, p.Problem, "Connections need a route to the peer and an address to send from.",
			append(d.downLinks(), "ip route get "+p.Addr.WithZone("").String(), "ip addr")...)
		return
	}
	if len(p.Best) == 0 {
		d.problem(subject, "no device of this host reaches it", "What there is cannot be used for this route.",
			"ramjet devices")
	}
	d.path(p, subject)
	if p.Path.RoCE == rdmasys.Arrived && !p.Route.Local {
		d.note(subject, "nothing takes RoCEv2's packets there: UDP port 4791 is closed",
			"A NIC with RoCE, rxe or a roce: device would have taken it. iWARP does not need it.",
			fmt.Sprintf("ramjet ping -s -d roce:%v    # there", p.Addr.WithZone("")),
			"modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0    # or this, there")
	}
	d.translated(p, subject)
	if p.Path.RoCE == rdmasys.Refused {
		d.problem(subject, "a host on the way, or the peer, refuses packets to UDP port 4791",
			"RoCEv2 needs that port.", "nft add rule inet filter input udp dport 4791 accept    # there")
	}
}

// translated reports addresses that are replaced on the way. RoCEv2's ICRC covers them (section 7.8.1, annex A17),
// so the peer discards the packets.
func (d *diagnosis) translated(p *Peer, subject string) {
	const why = "RoCEv2's checksum covers the addresses of a packet. Behind a service, a hostPort or another NAT the peer gets packets with other addresses, and discards them. iWARP passes, as it is TCP."
	mend := []string{"kubectl get pods -o wide    # use the address of the pod itself",
		"# or a service without an address: clusterIP: None",
		"export RAMJET_DEVICES=iwarp:    # or this, on both sides; the service needs the program's TCP ports"}
	if p.Service != nil {
		d.problem(subject, fmt.Sprintf("it is the address of the service %s (%s), not that of a pod", p.Service.Name,
			p.Service.From), why, mend...)
		return
	}
	if p.Reply == nil || p.Reply.Answered {
		return
	}
	const either = " Or nothing there accepts connections now: then ask again while it runs the command below."
	d.note(subject, "it does not reply over RoCEv2: "+p.Reply.Text, why+either,
		append([]string{fmt.Sprintf("ramjet ping -s -P    # there, and then here: ramjet doctor %v",
			p.Addr.WithZone(""))}, mend...)...)
}

// downLinks are the commands that bring up interfaces of devices: an interface that is down has no routes.
func (d *diagnosis) downLinks() (mend []string) {
	for i := range d.sys.Devices {
		for j := range d.sys.Devices[i].Ports {
			if p := &d.sys.Devices[i].Ports[j]; p.LinkLayer == "Ethernet" && !p.Active() && p.NetDev != "" {
				mend = append(mend, "ip link set dev "+p.NetDev+" up    # "+d.sys.Devices[i].Name+" is "+p.State)
			}
		}
	}
	return mend
}

// path reports packets that do not get through although the interface accepts them.
func (d *diagnosis) path(p *Peer, subject string) {
	t := p.Path
	if t.Lost == 0 {
		return
	}
	what := fmt.Sprintf("packets of %d bytes do not get there, although %s has an MTU of %d", t.Lost, p.Route.NetDev,
		p.Route.MTU)
	if t.Passed > 0 {
		what += fmt.Sprintf("; %d bytes do", t.Passed)
	}
	mend := []string{fmt.Sprintf("ip link set dev %s mtu %d    # there, and on the switches between", p.Route.NetDev,
		p.Route.MTU)}
	if p.Route.MTU > 1500 {
		mend = append(mend, fmt.Sprintf("ip link set dev %s mtu 1500    # or here, if they cannot", p.Route.NetDev))
	}
	d.problem(subject, what, "Small messages arrive and large ones never do: the MTUs of the two hosts, or of a switch between them, differ.", mend...)
}
