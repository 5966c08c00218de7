// SPDX-License-Identifier: Apache-2.0

// Package driver is the contract between package verbs and drivers, which implement devices: RoCEv2, RoCE v1,
// InfiniBand and iWARP in software, shared memory, or hardware. Programs need package verbs only.
//
// A driver implements [Device], and its objects [PD], [MR], [CQ], [QP] and so on. It checks the facts that only it can
// know (keys, queue space, limits) and returns the sentinels of package verbs. Its caller closes objects in the right
// order. A driver embeds [Unsupported] and overrides the methods that it supports. Its objects embed [UnsupportedPD]
// and so on. A driver that embeds these compiles with later versions, too.
//
// Abilities that not every device has are interfaces of their own. Packages verbs and cm do without them, too:
//
//   - [Connector]: queue pairs can be connected by address and port
//   - [MADDevice]: management datagrams
//   - [StreamDevice], and [ServiceDevice] besides: connections by streams
//   - [Observer]: lists of objects
//   - [Sleeper]: goroutines that wait for completions sleep in the driver
//   - [Watcher]: a region that learns of remote accesses
//
// The interfaces are type literals, so that package verbs, which this package imports, can have the same
// types (docs/decisions/0031-drivers.md). docs/driver.md names the call of libibverbs that carries out each
// call here. The package may change in any version: docs/stability.md.
//
// The other half of the package is for connection managers and observers, which run beside a program on the
// same devices. They reach the driver's objects ([DeviceOf], [QPOf], …), keep a value with a device
// ([Local], [OnClose]), and follow events ([OnEvent], [Watch]).
package driver
