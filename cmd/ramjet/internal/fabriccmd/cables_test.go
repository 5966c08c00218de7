// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/infiniband"
)

// --join names a listener and both ends of the cable; errors in it are reported before a fabric starts.
func TestFabricJoins(t *testing.T) {
	f := fabricCables{joins: []string{"[2001:db8::1]:7470,leaf-1[9],a node[12]"}}
	got, err := f.parse()
	want := fabricJoin{"[2001:db8::1]:7470", infiniband.End{Node: "leaf-1", Port: 9},
		infiniband.End{Node: "a node", Port: 12}}
	if err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("%+v, %v", got, err)
	}
	for join, says := range map[string]string{
		"192.0.2.1:7470":                              "give ADDRESS:PORT,NODE[PORT],NODE[PORT]",
		"192.0.2.1:7470,leaf-1,leaf-1[3]":             `"leaf-1" is not a port`,
		"192.0.2.1:7470,leaf-1[3],leaf-1[x]":          `"leaf-1[x]" is not a port`,
		"192.0.2.1:7470,l[3],l[99999999999999999999]": "port 99999999999999999999",
	} {
		f := fabricCables{joins: []string{join}}
		if _, err := f.parse(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("--join %s: %v, want %q", join, err, says)
		}
	}
	for _, host := range []int{-1, 64} {
		if _, err := (&fabricCables{host: host}).parse(); err == nil {
			t.Errorf("--host %d is taken", host)
		}
	}
}
