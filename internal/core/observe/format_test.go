// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"bytes"
	"encoding/binary"
	"math"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// fill sets every field below v to values that differ, so that a field which is not written shows.
func fill(v reflect.Value, n *uint64) {
	*n++
	switch a := v.Addr().Interface().(type) {
	case *verbs.GID:
		a[15] = byte(*n)
		return
	case *netip.AddrPort:
		*a = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(*n)}), uint16(*n))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), n)
		}
	case reflect.String:
		v.SetString(strings.Repeat("x", int(*n%7)+1))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n%251) / 1000)
	default:
		v.SetUint(*n % 251)
	}
}

// sample returns a process with all fields set.
func sample() *Process {
	var p Process
	n := uint64(0)
	fill(reflect.ValueOf(&p).Elem(), &n)
	return &p
}

// encode writes a process as a Writer does.
func encode(p *Process) []byte {
	var out bytes.Buffer
	w := Writer{to: &out}
	w.out = append(append(w.out, magic...), version)
	w.record(processRecord, p.code)
	for i := range p.Devices {
		d := &p.Devices[i]
		w.record(deviceRecord, d.code)
		for i := range d.Ports {
			w.record(portRecord, d.Ports[i].code)
		}
		for i := range d.Metrics {
			w.record(metricRecord, d.Metrics[i].code)
		}
		for i := range d.QPs {
			w.record(qpRecord, func(c *codec) { codeQP(&d.QPs[i], c) })
		}
		for i := range d.CQs {
			w.record(cqRecord, func(c *codec) { codeCQ(&d.CQs[i], c) })
		}
		for i := range d.MRs {
			w.record(mrRecord, func(c *codec) { codeMR(&d.MRs[i], c) })
		}
		for i := range d.MWs {
			w.record(mwRecord, func(c *codec) { codeMW(&d.MWs[i], c) })
		}
		for i := range d.SRQs {
			w.record(srqRecord, func(c *codec) { codeSRQ(&d.SRQs[i], c) })
		}
		for i := range d.AHs {
			w.record(ahRecord, func(c *codec) { codeAH(&d.AHs[i], c) })
		}
		for i := range d.Conns {
			w.record(connRecord, func(c *codec) { codeConn(&d.Conns[i], c) })
		}
		for i := range d.Latencies {
			w.record(latencyRecord, func(c *codec) { codeLatency(&d.Latencies[i], c) })
		}
		for i := range d.Injected {
			w.record(injectedRecord, func(c *codec) { codeInjected(&d.Injected[i], c) })
		}
		if d.NoConns {
			w.record(busyRecord, func(*codec) {})
		}
	}
	w.record(endRecord, func(*codec) {})
	w.flush()
	return out.Bytes()
}

// Every field that is written is read.
func TestFormat(t *testing.T) {
	want := sample()
	got, err := Read(bytes.NewReader(encode(want)))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read   %+v\nwritten %+v", got, want)
	}
}

// A device has no more histograms than there are operations.
func TestManyLatencies(t *testing.T) {
	p := &Process{Devices: []Device{{Latencies: make([]verbs.Latency, maxLatencies)}}}
	if _, err := Read(bytes.NewReader(encode(p))); err != nil {
		t.Error(err)
	}
	p.Devices[0].Latencies = make([]verbs.Latency, maxLatencies+1)
	if _, err := Read(bytes.NewReader(encode(p))); err == nil || !strings.Contains(err.Error(), "histograms") {
		t.Error(err)
	}
}

// Records of newer writers have more fields, and unknown types; records of older ones have fewer.
func TestOtherVersions(t *testing.T) {
	var out bytes.Buffer
	w := Writer{to: &out}
	w.out = append(append(w.out, magic...), version)
	w.record(99, func(c *codec) { c.buf = append(c.buf, 1, 2, 3) })
	w.record(processRecord, func(c *codec) { c.buf = append(c.buf, 7) })
	w.record(deviceRecord, func(c *codec) {
		(&Device{Name: "a"}).code(c)
		c.buf = append(c.buf, 9, 9, 9)
	})
	w.record(qpRecord, func(c *codec) { c.buf = append(c.buf, 17) })
	w.record(endRecord, func(*codec) {})
	w.flush()
	p, err := Read(&out)
	if err != nil {
		t.Fatal(err)
	}
	if p.PID != 7 || len(p.Devices) != 1 || p.Devices[0].Name != "a" || len(p.Devices[0].QPs) != 1 ||
		p.Devices[0].QPs[0].QPN != 17 {
		t.Errorf("%+v", p)
	}
}

// Bytes that are no snapshot are refused with a reason, and take no memory to speak of.
func TestMalformed(t *testing.T) {
	good := encode(sample())
	head := append([]byte(magic), version)
	long := binary.AppendUvarint(append(bytes.Clone(head), byte(qpRecord)), math.MaxUint64)
	for name, b := range map[string][]byte{
		"cut off": good[:len(good)-1],
		"nothing": nil, "no snapshot": []byte("HTTP/1.1 400 Bad Request"),
		"of version 9": append([]byte(magic), 9),
		"a record of":  long, "before that of its": append(bytes.Clone(head), byte(qpRecord), 0),
		"malformed":       append(bytes.Clone(head), byte(processRecord), 1, 0x80),
		"malformed: text": append(bytes.Clone(head), byte(deviceRecord), 2, 200, 1),
		"malformed: out of range": append(append(bytes.Clone(head), byte(processRecord), 10), 255, 255, 255, 255, 255,
			255, 255, 255, 255, 1),
	} {
		p, err := Read(bytes.NewReader(b))
		if name == "nothing" {
			name = "cut off"
		}
		if want, _, _ := strings.Cut(name, ":"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %+v", name, err, p)
		}
	}
}

// Texts of another process do nothing to a terminal.
func TestControlCharacters(t *testing.T) {
	p, err := Read(bytes.NewReader(encode(&Process{Devices: []Device{{Name: "a\x1b[2J\nb\u202e\xff"}}})))
	if err != nil || p.Devices[0].Name != "a?[2J?b??" {
		t.Errorf("%+v, %v", p, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add(encode(sample()))
	f.Add(encode(&Process{PID: 1}))
	f.Add([]byte(magic + "\x01\x01\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Read(bytes.NewReader(b))
		if err != nil {
			return
		}
		again, err := Read(bytes.NewReader(encode(p)))
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("read again: %v\n%+v\n%+v", err, again, p)
		}
	})
}
