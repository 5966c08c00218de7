// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"errors"
	"maps"
	"strings"
	"testing"
)

// knownPorts resolves the names of two adapters.
func knownPorts(name string) ([]uint64, error) {
	switch name {
	case "host-1":
		return []uint64{0x11}, nil
	case "host 2":
		return []uint64{0x21, 0x22}, nil
	}
	return nil, errors.New("there is no such node")
}

func TestParsePartitions(t *testing.T) {
	got, err := ParsePartitions("p", `
# the usual
Default=0x7fff,ipoib:ALL, SELF=full;
Blue , ipoib : 0x1234=full, 0x3456=limi, 77 ;
Red = 0x8300 : SELF=full ; Red = 0x300 :
   ALL_CAS=limited,	# over two lines
   host-1=full ;
=0x80 , defmember=full : "host 2", 0x99=limited;
Empty=5 : ;
Green : 0x1 ;
`, knownPorts)
	if err != nil {
		t.Fatal(err)
	}
	want := []Partition{
		{Name: "Default", PKey: 0x7fff, IPoIB: true, All: LimitedMember, Self: FullMember},
		{Name: "Blue", PKey: 1, IPoIB: true, Members: map[uint64]Membership{0x1234: FullMember, 0x3456: LimitedMember,
			77: LimitedMember}},
		{Name: "Red", PKey: 0x300, Self: FullMember, Adapters: LimitedMember,
			Members: map[uint64]Membership{0x11: FullMember}},
		{PKey: 0x80, Members: map[uint64]Membership{0x21: FullMember, 0x22: FullMember, 0x99: LimitedMember}},
		{Name: "Empty", PKey: 5},
		{Name: "Green", PKey: 2, Members: map[uint64]Membership{1: LimitedMember}},
	}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		g, w := got[i], want[i]
		if !maps.Equal(g.Members, w.Members) {
			t.Errorf("members %v, want %v", g.Members, w.Members)
		}
		g.Members, w.Members = nil, nil
		if g.Name != w.Name || g.PKey != w.PKey || g.IPoIB != w.IPoIB || g.All != w.All || g.Adapters != w.Adapters ||
			g.Self != w.Self {
			t.Errorf("%+v, want %+v", g, w)
		}
	}
}

func TestParsePartitionsErrors(t *testing.T) {
	for text, want := range map[string]string{
		"A=1 : ALL":                    "p:1: the statement has no end",
		"\n\nA=1 ALL;":                 "p:3: \"A=1 ALL\": write NAME=P_KEY",
		"A=1 : B : ALL;":               "p:1: \"A=1 : B : ALL\": write NAME=P_KEY",
		"A=0 : ALL;":                   `p:1: P_Key "0": give 0x0001 to 0x7fff`,
		"A=0x8000 : ALL;":              "give 0x0001 to 0x7fff",
		"A=x : ALL;":                   "give 0x0001 to 0x7fff",
		": ALL;":                       "neither a name nor a P_Key",
		";":                            "write NAME=P_KEY",
		"A=1:ALL;\n\nA=2:ALL;":         `p:3: partition "A" has the P_Key 0x0001 already, and 0x0002 here`,
		"A=1,ipobi : ALL;":             `no flag "ipobi"`,
		"A=1,ipoib,mtu=5 : ALL;":       "mtu is not supported",
		"A=1,indx0 : ALL;":             "indx0 is not supported",
		"A=1,defmember=most : ALL;":    `defmember: "most": say full or limited`,
		"A=1 : ALL=both;":              "both is not supported",
		"A=1 : ALL=;":                  `"": say full or limited`,
		"A=1 : ALL,,SELF;":             "a member is missing",
		"A=1 : 0;":                     "no port has the GUID 0",
		"A=1 : host-9;":                `member "host-9": there is no such node: give the GUID`,
		"A=1 : 0x11112222333344445;":   `member "0x11112222333344445"`,
		"A=1,x:ALL;\nB=1,y:ALL,ALL=m;": "p:2: ALL: \"m\"",
	} {
		if _, err := ParsePartitions("p", text, knownPorts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := ParsePartitions("p", "A=1 : host-1;", nil); err == nil {
		t.Error("a name where there are none")
	}
}

// Any file has an error, or partitions with P_Keys of their own.
func FuzzParsePartitions(f *testing.F) {
	f.Add("")
	f.Add("0")
	for _, seed := range []string{"Default=0x7fff,ipoib:ALL, SELF=full;",
		"A , ipoib : 0x1234=full, 7=limi ;\n=3:;B:\"host 2\";", "#\n;:,=;", "A=1:ALL;A:host-1=f;"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ParsePartitions("p", text, knownPorts)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "p:") {
				t.Errorf("%v: without file and line", err)
			}
			return
		}
		seen := make(map[uint16]bool)
		for _, p := range all {
			if p.PKey == 0 || p.PKey > 0x7fff || seen[uint16(p.PKey)] {
				t.Errorf("P_Key %#x", p.PKey)
			}
			seen[uint16(p.PKey)] = true
		}
	})
}
