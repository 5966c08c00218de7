// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"os/exec"
	"strconv"
	"testing"

	"github.com/ramjet-rdma/ramjet/iwarp"
)

// TestIWARPModes sets up streams of every kind that siw can be brought to, by the settings
// that build.sh makes of its constants, and moves data both ways over each.
func TestIWARPModes(t *testing.T) {
	type settings = map[string]int
	for _, c := range []struct {
		name    string
		siw     settings
		opt     iwarp.Options
		mtu     int
		refused bool // by siw
	}{
		{name: "CRC for Ramjet", siw: settings{}},
		{name: "CRC for siw", siw: settings{"mpa_crc_required": 1}, opt: iwarp.Options{NoCRC: true}},
		{name: "CRC for both", siw: settings{"mpa_crc_required": 1}},
		{name: "no CRC", siw: settings{}, opt: iwarp.Options{NoCRC: true}},
		{name: "never CRC", siw: settings{"mpa_crc_strict": 1}, opt: iwarp.Options{NoCRC: true}},
		{name: "never CRC, but Ramjet wants it", siw: settings{"mpa_crc_strict": 1}, refused: true},
		{name: "markers", siw: settings{}, opt: iwarp.Options{Markers: true}, refused: true},
		{name: "peer to peer", siw: settings{"peer_to_peer": 1}},
		{name: "large FPDUs", siw: settings{"try_gso": 1}},
		{name: "revision 1", siw: settings{"mpa_version": 1}},
		{name: "MTU 1500", siw: settings{}, mtu: 1500},
		{name: "MTU 1500, large FPDUs, no CRC", siw: settings{"try_gso": 1}, opt: iwarp.Options{NoCRC: true},
			mtu: 1500},
		{name: "short FPDUs", siw: settings{}, opt: iwarp.Options{FPDU: 128}},
		{name: "copies", siw: settings{"zcopy_tx": 0}},
	} {
		for _, asks := range []bool{true, false} {
			t.Run(c.name+"/"+asker(asks), func(t *testing.T) {
				p := openIW(t, iwFamilies[0], &c.opt, asks)
				if len(c.siw) > 0 {
					a := args{}
					for name, value := range c.siw {
						a[name] = value
					}
					p.g.call("siw", a, nil)
				}
				if c.mtu != 0 {
					setMTU(t, c.mtu)
					p.g.call("mtu", args{"mtu": c.mtu}, nil)
				}
				s, err := p.tryStream(c.refused)
				if c.refused {
					if err == nil {
						t.Error("there is a connection")
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				for _, n := range []int{40, 5000, 200_000} {
					s.exchange(t, n)
				}
				s.close(t)
			})
		}
	}
}

// setMTU sets the MTU of this end of iWARP's link, until the test ends.
func setMTU(t *testing.T, mtu int) {
	t.Helper()
	set := func(n int) {
		if out, err := exec.Command("ip", "link", "set", "tap1", "mtu", strconv.Itoa(n)).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
	t.Cleanup(func() { set(9000) })
	set(mtu)
}

// TestIWARPLoss loses 2% of the segments in both directions.
func TestIWARPLoss(t *testing.T) {
	eachIW(t, func(t *testing.T, p *iwPair) {
		setMTU(t, 1500) // for more of them
		p.g.call("mtu", args{"mtu": 1500}, nil)
		s := p.stream()
		t.Cleanup(func() { p.g.call("netem_off", nil, nil) })
		for _, direction := range []string{"out", "in"} {
			p.g.call("netem", args{"direction": direction, "args": []string{"loss", "2%"}, "iwarp": "all"}, nil)
		}
		lost := 0
		for lost < 10 && !t.Failed() {
			s.exchange(t, 150_000)
			_, out := p.g.netemStats("out")
			_, in := p.g.netemStats("in")
			lost = out + in
		}
		p.g.call("netem_off", nil, nil)
		s.close(t)
	})
}
