// SPDX-License-Identifier: Apache-2.0

// Package topology describes an InfiniBand fabric as text: its nodes, and the cables between their
// ports.
//
// # The format
//
// It is the format of ibnetdiscover, and of the files that ibsim reads. A record begins with a node and
// goes on with its ports that have a cable:
//
//	Switch	24 "leaf-1"		# "the switch below" base port 0 lid 3 lmc 0
//	[1]	"host-1"[1]		# "host-1" lid 4 4xEDR
//	[2]	"spine-1"[7]
//
//	Ca	2 "host-1"		# "host-1 mlx5_0"
//	[1](2c90300293e1f)	"leaf-1"[1]	# lid 4 lmc 0 "the switch below" lid 3 4xEDR
//
// The node's line has its type (Switch; Ca or Hca, a channel adapter; Rt, a router), how many ports it
// has, its name, and behind the # its description. A port's line has the port's number, its GUID (of
// an adapter's or router's port, in hexadecimal), the name and the port of the other end, and behind
// the # the width and speed at which the link runs. A cable may stand in both nodes' records or in one
// of them. A port without a number is port 1. LIDs are the ports' first ones.
//
// Lines before a record say more about the next node:
//
//	vendid=0x2c9               VendorID, 24 bits
//	devid=0x1017               DeviceID, 16 bits
//	sysimgguid=0x2c90300293e1e SystemImageGUID; without it the node's GUID
//	switchguid=0x2c9(2c9)      the GUID of the next switch, and that of its port 0
//	caguid=0x2c9               the GUID of the next adapter; hcaguid= means the same, rtguid= a router
//	caguids=0x2c9              the same of an adapter further down: nodes of other types may come first
//
// One of each may stand before a node, and after the ports of the node before. A line without a node, because no
// such node follows or because the line stands behind its node, is an error.
//
// Nodes without such a line have the next GUIDs after the last node of their type. An
// adapter takes one for itself and one for each port. Without any line, switches count from 0x200000,
// adapters from 0x100000 and routers from 0x300000, and nodes of other hosts elsewhere ([ParseFor]). A name as
// ibnetdiscover makes them (S-0002c90300293e1e; H for adapters, R for routers) has the GUID in it, also if a line
// has another one: ibdiagnet has the whole system's GUID in the line. switchguid+0x10 means: 0x10 behind the last GUID
// of a line.
//
// Lines that ibsim has beyond ibnetdiscover:
//
//	[1] "B"[2] w=2 s=4 e=2     the port's abilities, as PortInfo has them: LinkWidthEnabled,
//	                           LinkSpeedEnabled, LinkSpeedExtEnabled
//	width=3 speed=7 extspeed=2 the same for all ports that follow, each in its own line
//	module "rack1"             names that follow begin with rack1#
//	@[3] "uplink"              port 3 is known as rack1@uplink; another port may name that instead
//	                           of a node and port
//	include "other.net"        another file
//	do link "A"[1] "B"[1]      a command of the console, for when the fabric runs
//
// A link runs at the best width and speed that both ends can do; ends that say nothing can do
// anything. FDR10 counts as QDR, and speeds above NDR as NDR. Lines of ibnetdiscover about chassis
// and about nodes that did not answer are skipped. In all other lines, text that cannot be parsed is an
// error.
//
// # Writing
//
// [Topology.Append] writes the same format, in a form that ibsim reads as well. Its text parses to an
// equal Topology.
package topology
