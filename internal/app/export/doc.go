// SPDX-License-Identifier: Apache-2.0

// Package export shows the processes of a host, and the kernel's devices, to Prometheus: `ramjet export`.
//
// Names and texts are those of module metrics, which shows the devices of one process, with the labels pid and process
// before device. What sysfs counts has no process. A test of that module compares the two.
//
// Containers' processes hand what they say to a collector. An exporter of containers has their labels before pid.
//
// What processes say of themselves was written by others. Names and labels are made valid here, and a process gets no
// more series than its share of a limit, see [Options].
package export
