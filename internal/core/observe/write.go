// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/ramjet-rdma/ramjet/internal/core/faults"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

const (
	magic   = "ramjetS"
	version = 1
	// pageSize is how many objects are copied under a lock: some microseconds.
	pageSize = 64
	// flushSize is from how many bytes on records are handed on.
	flushSize = 32 << 10
)

// Writer writes snapshots of this process. Its memory is reused.
type Writer struct {
	codec codec // the record
	out   []byte
	to    io.Writer
	err   error

	qps   [pageSize]driver.QPInfo
	cqs   [pageSize]driver.CQInfo
	mrs   [pageSize]driver.MRInfo
	mws   [pageSize]driver.MWInfo
	srqs  [pageSize]driver.SRQInfo
	ahs   [pageSize]driver.AHInfo
	conns [pageSize]driver.ConnInfo
}

// Snapshot writes the state of all registered devices. Objects are copied one page after
// the other, so a change meanwhile may be seen or not.
func (w *Writer) Snapshot(to io.Writer) error {
	w.to, w.err, w.out = to, nil, append(append(w.out[:0], magic...), version)
	defer func() { w.to = nil }()
	w.record(processRecord, (&Process{PID: os.Getpid(), Command: command()}).code)
	for _, d := range devices() {
		w.device(d)
		if w.err != nil {
			return w.err
		}
	}
	w.record(endRecord, func(*codec) {})
	w.flush()
	return w.err
}

// command returns the name of this process.
func command() string {
	if len(os.Args) == 0 {
		return ""
	}
	return filepath.Base(os.Args[0])
}

// record writes a record with the fields that code writes.
func (w *Writer) record(t recordType, code func(*codec)) {
	w.out = appendRecord(w.out, &w.codec, t, code)
	if len(w.out) >= flushSize {
		w.flush()
	}
}

func (w *Writer) flush() {
	if w.err == nil {
		_, w.err = w.to.Write(w.out)
	}
	w.out = w.out[:0]
}

func (w *Writer) device(e liveDevice) {
	a := e.dev.Query()
	d := Device{Name: a.Name, Kind: a.Kind, Transport: a.Transport.String(), Firmware: a.Firmware, NodeGUID: a.NodeGUID}
	w.record(deviceRecord, d.code)
	for n := 1; n <= a.Ports; n++ {
		p, err := e.dev.Port(n)
		if err != nil {
			continue
		}
		port := Port{Num: n, State: p.State, Link: p.Link.String(), NetDev: p.NetDev, LID: p.LID,
			ActiveMTU: p.ActiveMTU.Bytes(), SpeedMbps: p.SpeedMbps, Physical: p.Subnet.PhysState}
		if gids, err := e.dev.GIDs(n); err == nil && len(gids) > 0 {
			port.GID = gids[0].GID
		}
		w.record(portRecord, port.code)
	}
	metrics, err := e.dev.Metrics()
	for i := range metrics {
		m := &metrics[i]
		if err == nil {
			w.record(metricRecord,
				(&Metric{m.FlatName(), m.Kind == metric.Gauge, string(m.Unit), m.Value, m.Name, m.Help, m.Labels}).code)
		}
	}
	latencies, err := e.dev.Latencies()
	for i := range latencies {
		if err == nil {
			w.record(latencyRecord, func(c *codec) { codeLatency(&latencies[i], c) })
		}
	}
	if t, ok := driver.DeviceOf(e.dev).(faults.Target); ok && t.Faults() != nil {
		for _, n := range t.Faults().Counts() {
			w.record(injectedRecord, func(c *codec) { codeInjected(&n, c) })
		}
	}
	if o, ok := driver.DeviceOf(e.dev).(driver.Observer); ok {
		list(w, qpRecord, w.qps[:], o.ObserveQPs, codeQP)
		list(w, cqRecord, w.cqs[:], o.ObserveCQs, codeCQ)
		list(w, mrRecord, w.mrs[:], o.ObserveMRs, codeMR)
		list(w, mwRecord, w.mws[:], o.ObserveMWs, codeMW)
		list(w, srqRecord, w.srqs[:], o.ObserveSRQs, codeSRQ)
		list(w, ahRecord, w.ahs[:], o.ObserveAHs, codeAH)
	}
	if e.conns != nil && list(w, connRecord, w.conns[:], e.conns, codeConn) == Busy {
		w.record(busyRecord, func(*codec) {})
	}
}

// list writes a record for each object, and returns the last position.
func list[T any](w *Writer, t recordType, page []T, next func([]T, int) (int, int), code func(*T, *codec)) int {
	at := driver.FirstPage
	for at > 0 && w.err == nil {
		var n int
		n, at = next(page, at)
		for i := range n {
			w.record(t, func(c *codec) { code(&page[i], c) })
		}
		runtime.Gosched() // the program's goroutines come first
	}
	clear(page) // of texts
	return at
}
