// SPDX-License-Identifier: Apache-2.0

// Package rdmasys reads an operating system's facts about RDMA: devices, ports and GID tables, network interfaces,
// modules, limits, device files, control groups, flow control and filters. It looks up routes, and finds out how large
// a packet reaches a peer.
//
// [Source.Read] reads as much as possible. Facts that it may not read, or that this system does not
// have, are absent, and [System.Unread] says why where that matters. Only Linux has anything to read.
//
// Files come from an fs.FS, so that tests read trees of other machines. Facts that no file has come
// from functions of the [Source]: [Host] has this machine's. Nothing is changed, and only [Path] sends
// anything.
//
//	system.go                        [System]
//	devices.go, counters.go          /sys/class/infiniband: devices, ports, GID tables; counters of ports
//	interfaces.go, addrs.go          /sys/class/net, and the addresses of interfaces
//	host.go                          modules, limits, parameters of the kernel, ports in use
//	cgroup.go                        control groups: limits of RDMA, memory, processes and processors
//	libraries.go                     libraries that the environment injects, and whether they load
//	parse.go                         the formats of these files
//	candidates.go                    which devices have a route to an address
//	open.go                          package kernel's devices, where a program has that package
//	host_linux.go, netlink_linux.go  questions to the kernel: routes, flow control, filters
//	path.go, path_linux.go           how large a packet reaches a peer
package rdmasys
