// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel

import (
	"testing"
	"testing/fstest"

	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// Counters are the counters of all ports, by name, and say which port's they are.
func TestMetrics(t *testing.T) {
	const ports = "sys/class/infiniband/mlx5_0/ports/"
	root := fstest.MapFS{ports + "1/counters/port_rcv_data": {Data: []byte("5\n")},
		ports + "2/counters/port_rcv_data":    {Data: []byte("7\n")},
		ports + "1/hw_counters/out_of_buffer": {Data: []byte("1\n")}}
	got := portMetrics(root, "mlx5_0", 2)
	port := func(n string) metric.Label { return metric.Label{Name: "port", Value: n} }
	if len(got) != 3 || got[0].Name != "out_of_buffer" || got[1].Value != 20 || got[1].Labels[0] != port("1") ||
		got[2].Value != 28 || got[2].Labels[0] != port("2") {
		t.Errorf("%+v", got)
	}
}
