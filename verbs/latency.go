// SPDX-License-Identifier: Apache-2.0

package verbs

import "github.com/ramjet-rdma/ramjet/verbs/metric"

// Latency is how long send work requests of an operation took, from posting to completion with success: to the
// acknowledgement or the response on reliable connections, to the sending elsewhere. A device measures samples of
// them, see [Device.Latencies].
type Latency struct {
	Op WCOp
	metric.Histogram
}

// Latencies returns how long work requests took since the device was opened, for each operation of which
// it has samples. It measures one of about 64 work requests of a queue pair, the first among them, and of
// requests that are posted together the first. ErrNotSupported: it measures none.
func (d *Device) Latencies() ([]Latency, error) {
	l, err := d.drv.Latencies()
	return l, wrap("latencies", err)
}
