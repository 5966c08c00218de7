// SPDX-License-Identifier: Apache-2.0

package statsocket

import (
	"slices"
	"testing"
)

func TestNames(t *testing.T) {
	n := name{1000, 4242, 0x1234}
	if got, ok := parseName(n.String()); !ok || got != n {
		t.Errorf("%q: %+v, %v", n, got, ok)
	}
	for _, s := range []string{"", "@ramjet/stat/", "@ramjet/stat/1/2", "@ramjet/stat/1/2/3",
		"@ramjet/stat/01/2/0000000000000003", "@ramjet/stat/-1/2/0000000000000003",
		"@ramjet/stat/1/99999999999/0000000000000003", "/tmp/ramjet/stat/1/2/0000000000000003",
		"@ramjet/stat/1/2/000000000000000g", "@ramjet/stat/1/2/000000000000000A"} {
		if n, ok := parseName(s); ok {
			t.Errorf("%q is taken for %+v", s, n)
		}
	}
	const table = `Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 20453 @ramjet/stat/1000/4242/0000000000001234
0000000000000000: 00000003 00000000 00000000 0001 03 20454 @ramjet/stat/1000/4242/0000000000001234
0000000000000000: 00000002 00000000 00010000 0001 01 20455 /run/dbus/system_bus_socket
0000000000000000: 00000003 00000000 00000000 0001 03 20456
0000000000000000: 00000003 00000000 00000000 0001 03 20458 @ramjet/stat/0/2/00000000000000ff
0000000000000000: 00000002 00000000 00010000 0001 01 20457 @ramjet/stat/0/1/00000000000000ff
`
	if got := listenersIn(table); !slices.Equal(got, []listener{{n, 20453}, {name{0, 1, 255}, 20457}}) {
		t.Errorf("%+v", got)
	}
}

// Names come from any process of the network namespace.
func FuzzListenersIn(f *testing.F) {
	f.Add("")
	f.Add("0")
	f.Add("0: 2 0 10000 1 1 20453 @ramjet/stat/1000/4242/0000000000001234\n")
	f.Add("0: 2 0 10000 1 1 20453 @ramjet/stat/4294967295/2147483647/ffffffffffffffff")
	f.Fuzz(func(t *testing.T, table string) {
		for _, n := range listenersIn(table) {
			if again, ok := parseName(n.String()); !ok || again != n.name || n.pid < 0 || n.uid < 0 {
				t.Errorf("%+v", n)
			}
		}
	})
}

func TestAllowed(t *testing.T) {
	for _, c := range []struct {
		reader, owner int
		want          bool
	}{{0, 1000, true}, {1000, 1000, true}, {1000, 0, false}, {1001, 1000, false}, {0, 0, true}} {
		if allowed(c.reader, c.owner) != c.want {
			t.Errorf("user %d reads what is user %d's: %v", c.reader, c.owner, !c.want)
		}
	}
}
