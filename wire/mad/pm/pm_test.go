// SPDX-License-Identifier: Apache-2.0

package pm

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/codec"
)

// attributes has the attributes of the package with their lengths.
var attributes = []codec.Row{
	codec.Of[PortCounters]("PortCounters", 44),
	codec.Of[PortCountersExtended]("PortCountersExtended", 184),
}

func TestCodecs(t *testing.T) { codec.Test(t, attributes) }

// FuzzCounters: any bytes decode and encode back, reserved fields included, and too few are refused.
func FuzzCounters(f *testing.F) {
	var ramp [192]byte
	for i := range ramp {
		ramp[i] = byte(3*i + 1)
	}
	f.Add(ramp[:])
	f.Add(ramp[:183])
	f.Add(ramp[:43])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, a := range attributes {
			a.Check(t, b)
		}
	})
}

// TestSelect: the selections are at the bits that section 16.1 gives them.
func TestSelect(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want uint64
	}{
		{"RcvPkts", uint64(RcvPkts), 1 << 15}, {"XmitWait", uint64(XmitWait), 1 << 16},
		{"VL15Dropped", uint64(VL15Dropped), 1 << 11},
		{"ExtMulticastRcv", uint64(ExtMulticastRcv), 1 << 7}, {"ExtSymbolErrors", uint64(ExtSymbolErrors), 1 << 32},
		{"ExtXmitWait", uint64(ExtXmitWait), 1 << 44},
	} {
		if c.got != c.want {
			t.Errorf("%s is %#x, want %#x", c.name, c.got, c.want)
		}
	}
	m := PortCounters{Select: XmitWait | SymbolErrors}
	if b := m.Append(nil); b[3] != 1 || b[18] != 1 {
		t.Errorf("CounterSelect and CounterSelect2 are in %x", b)
	}
	e := PortCountersExtended{Select: ExtRcvData | ExtLinkDowned}
	if b := e.Append(nil); b[3] != 2 || b[7] != 4 {
		t.Errorf("CounterSelect and CounterSelect2 are in %x", b)
	}
}
