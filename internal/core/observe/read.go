// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Limits of the bytes taken from a process.
const (
	maxBytes   = 256 << 20
	maxRecord  = 16 << 10
	maxDevices = 4096
	maxObjects = 1 << 20 // of all devices
)

// Read reads a snapshot.
func Read(from io.Reader) (*Process, error) {
	r := reader{in: bufio.NewReaderSize(io.LimitReader(from, maxBytes), 64<<10)}
	var head [len(magic) + 1]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		return nil, truncated(err)
	}
	if string(head[:len(magic)]) != magic {
		return nil, errors.New("this is no snapshot of a process with Ramjet devices")
	}
	if v := head[len(magic)]; v != version {
		return nil, fmt.Errorf("the process writes snapshots of version %d, this reads version %d: use the command of its version of Ramjet", v, version)
	}
	for {
		t, err := r.next()
		if err != nil {
			return nil, err
		}
		if t == endRecord {
			return &r.process, nil
		}
		if err := r.take(t); err != nil {
			return nil, err
		}
	}
}

// ErrTruncated says that the snapshot of a process is not complete.
var ErrTruncated = errors.New("what the process sent is cut off: it ended, or refused to be read")

// truncated says that a snapshot is not complete.
func truncated(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrTruncated
	}
	return err
}

type reader struct {
	in      *bufio.Reader
	process Process
	objects int
	buf     []byte
	codec   codec
}

// next reads a record into the codec.
func (r *reader) next() (recordType, error) {
	t, err := r.in.ReadByte()
	if err != nil {
		return 0, truncated(err)
	}
	n, err := binary.ReadUvarint(r.in)
	if err != nil {
		return 0, truncated(err)
	}
	if n > maxRecord {
		return 0, fmt.Errorf("a record of %d bytes: at most %d are taken", n, maxRecord)
	}
	if r.buf == nil {
		r.buf = make([]byte, maxRecord)
	}
	if _, err := io.ReadFull(r.in, r.buf[:n]); err != nil {
		return 0, truncated(err)
	}
	r.codec = codec{reading: true, buf: r.buf[:n]}
	return recordType(t), nil
}

// take takes the record of the codec.
func (r *reader) take(t recordType) error {
	if r.objects++; r.objects > maxObjects {
		return fmt.Errorf("the process has more than %d objects", maxObjects)
	}
	c := &r.codec
	switch t {
	case processRecord:
		r.process.code(c)
		return c.err
	case deviceRecord:
		if len(r.process.Devices) == maxDevices {
			return fmt.Errorf("the process has more than %d devices", maxDevices)
		}
		r.process.Devices = append(r.process.Devices, Device{})
	}
	if len(r.process.Devices) == 0 {
		if (t < deviceRecord || t > ahRecord) && t != latencyRecord && t != injectedRecord {
			return nil
		}
		return errors.New("a record stands before that of its device")
	}
	d := &r.process.Devices[len(r.process.Devices)-1]
	switch t {
	case deviceRecord:
		d.code(c)
	case portRecord:
		add(&d.Ports).code(c)
	case metricRecord:
		add(&d.Metrics).code(c)
	case qpRecord:
		codeQP(add(&d.QPs), c)
	case cqRecord:
		codeCQ(add(&d.CQs), c)
	case mrRecord:
		codeMR(add(&d.MRs), c)
	case mwRecord:
		codeMW(add(&d.MWs), c)
	case srqRecord:
		codeSRQ(add(&d.SRQs), c)
	case ahRecord:
		codeAH(add(&d.AHs), c)
	case connRecord:
		codeConn(add(&d.Conns), c)
	case latencyRecord:
		if len(d.Latencies) == maxLatencies {
			return errors.New("a device has more histograms of latency than there are operations")
		}
		codeLatency(add(&d.Latencies), c)
	case injectedRecord:
		codeInjected(add(&d.Injected), c)
	case busyRecord:
		d.NoConns = true
	}
	return c.err
}

// add appends a zero value and returns it.
func add[T any](list *[]T) *T {
	var zero T
	*list = append(*list, zero)
	return &(*list)[len(*list)-1]
}
