// SPDX-License-Identifier: Apache-2.0

// Package ibsim lets programs that use libumad2sim work on a subnet: OpenSM, and the diagnostic tools of
// InfiniBand. That library stands in front of libibumad and sends management datagrams to a simulator,
// over datagram sockets with names of the abstract namespace:
//
//   - NAME:ctl, where a client registers, and asks for values that programs otherwise read in sysfs;
//   - NAME:out0 to NAME:out9, one for each client, from and to which datagrams go.
//
// The numbers of a message are in the byte order of the machine, because both ends are on it, except
// numbers from a datagram's address.
//
// The library expects the services of the kernel: a request that is not answered is repeated, and
// returned with an error after the last time.
package ibsim
