// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/internal/device/cdevices"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// lanes names devices that have no IP address.
type lanes struct{}

func (lanes) Local() ([]kinds.Local, error) { return []kinds.Local{{Address: "lane0", Up: true}}, nil }
func (lanes) Spare(int) ([]string, error)   { return nil, errors.New("all lanes are taken") }
func (lanes) At(string) string              { return "lane7" }
func (lanes) IP(string) (netip.Addr, bool)  { return netip.Addr{}, false }

// A new kind of device is a row of the table and nothing else: programs, commands, completions and C
// programs have it then.
func TestNewKind(t *testing.T) {
	rows := kinds.Table
	t.Cleanup(func() { kinds.Table = rows })
	kinds.Table = append(rows[:len(rows):len(rows)],
		&kinds.Kind{Name: "newest", Text: "newest: lanes", Listed: true, Naming: lanes{},
			Open: func(kinds.Name, *kinds.Options) (*verbs.Device,
				error) {
				return nil, errors.New("the lane is closed")
			}})

	if _, err := ramjet.Open("newest:lane1"); err == nil || err.Error() != "the lane is closed" {
		t.Errorf("Open: %v", err)
	}
	if got, err := cdevices.List("newest:lane2", true); err != nil || len(got) != 1 || got[0].Name != "newest0" {
		t.Errorf("C programs: %v, %v", got, err)
	}
	for _, c := range []struct{ args, want, wrong string }{
		{"devices", "newest:lane0 ", ""},
		{"devices newest:lane1", "", "the lane is closed"},
		{"demo --help", "newest", ""},
		{"demo -d newest", "", "all lanes are taken"},
		{"perf send bw -d newest:lane1", "", "the lane is closed"},
		{cobra.ShellCompNoDescRequestCmd + " demo -d n", "newest", ""},
		{cobra.ShellCompNoDescRequestCmd + " ping -d n", "newest:lane0", ""},
	} {
		var out bytes.Buffer
		root := newRootCmd(&out)
		root.SetErr(&bytes.Buffer{})
		root.SetArgs(strings.Split(c.args, " "))
		err := root.ExecuteContext(t.Context())
		if (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v", c.args, err)
		}
		if !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: no %q in\n%s", c.args, c.want, out.String())
		}
	}
}
