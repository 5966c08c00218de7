// SPDX-License-Identifier: Apache-2.0

// Package export shows the processes of a host, and the kernel's devices, to Prometheus: `ramjet export`.
//
// Names and texts are those of module metrics, which shows the devices of one process, with the labels pid and process
// before device. Counters of sysfs have no process. A test of that module compares the two.
//
// Containers' processes hand their state to a collector. An exporter of containers has their labels before pid.
//
// The state of other processes is not trusted. Names and labels are made valid here, and a process gets no more series
// than its share of a limit, see [Options].
package export
