// SPDX-License-Identifier: Apache-2.0

// Package memory holds the registered memory of a device: the keys, the regions and
// windows behind them, and the checks of every access (IBTA volume 1, 10.6). It is the
// only package that reads or writes data memory.
//
// Nothing here is safe for concurrent use: the device's lock covers it. That lock also makes deregistering safe, since
// every access happens under it.
package memory
