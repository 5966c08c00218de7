// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/infiniband"
)

// Where libraries are injected, doctor says of each device that joins a fabric whether that answers, and is managed.
func TestDoctorJoined(t *testing.T) {
	t.Parallel()
	listening := func(o *infiniband.FabricOptions) string {
		o.Spare = 2
		f, err := infiniband.GenerateFabric("star:1", o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		a, err := f.Listen(t.Context(), "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return a.String()
	}
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	name := fabricName(t)
	for at, want := range map[string]string{
		listening(&infiniband.FabricOptions{}):                " (127.0.0.1) answers",
		listening(&infiniband.FabricOptions{NoManager: true}): "answers, without a subnet manager",
		silent.LocalAddr().String():                           ": nobody answers within 8s",
		"fabric.invalid:7470":                                 "it does not join the fabric at fabric.invalid:7470: lookup",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			c, end := command(ctx, t, "doctor")
			c.Env = append(c.Environ(), "RAMJET_LIBS="+t.TempDir(), "RAMJET_DEVICES=ib0=infiniband:"+name+"?join="+at)
			r := end(t, c.Run())
			if text := strings.Join(strings.Fields(r.stdout), " "); !strings.Contains(text, at) ||
				!strings.Contains(text, want) {
				t.Errorf("no %q in\n%s%s", want, r.stdout, r.stderr)
			}
		})
	}
}
