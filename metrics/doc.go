// SPDX-License-Identifier: Apache-2.0

// Package metrics shows Ramjet's devices to Prometheus. It is a module of its own, so that Ramjet
// does not depend on Prometheus's client.
//
// # Names
//
// All names begin with ramjet_. Metrics that node_exporter's InfiniBand collector has of the kernel's devices have its
// names here, without infiniband_:
//
//	node_infiniband_port_data_received_bytes_total     ramjet_port_data_received_bytes_total
//	node_infiniband_port_packets_transmitted_total     ramjet_port_packets_transmitted_total
//	node_infiniband_state_id                           ramjet_state_id
//
// Other counters of a device have the name that [verbs.Device.Metrics] gives them, which is that of
// `rdma statistic` where the kernel's rxe counts the same, with the unit and _total behind it:
// ramjet_duplicate_request_total, ramjet_rcvd_rnr_err_total. docs/metrics.md lists them.
//
// # Labels and their number
//
// Every series has the label device. Counters have the label port too: the number of the port, or
// nothing on a device of several ports, which counts them together. Queue pairs are counted by type
// and state. A device has some seventy series, however many queue pairs it has. Only
// [Options].QueuePairs makes series of single queue pairs, and only of so many.
//
// # Cost
//
// A scrape copies the counters of each device, and the statistics of its queue pairs. It waits for
// nothing that a device does.
//
// Of completion latency there are histograms of samples: about one work request in 64. The round trips
// that the devices measure anyway are there as gauges.
//
// # Other programs
//
// `ramjet export` tells the same of all processes of a host, under the same names, with the labels pid and
// process. The folder has alerts, a dashboard and a unit for systemd.
package metrics
