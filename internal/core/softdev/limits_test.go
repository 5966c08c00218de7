// SPDX-License-Identifier: Apache-2.0

package softdev_test

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/core/packetdev"
	"github.com/ramjet-rdma/ramjet/internal/testkit/memhub"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// The limits that a device reports are its real ones: one object more is ErrNoMemory, and there is room again when one
// is closed.
func TestLimits(t *testing.T) {
	var h memhub.Hub
	dev := driver.NewDevice(packetdev.New("test", "test", 1, h.NewPort()))
	defer dev.Close()
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	attr, self := dev.Query(), h.NewPort().GID
	for _, c := range []struct {
		kind   string
		limit  int
		others int // of this kind that there are already
		create func() (io.Closer, error)
	}{
		{"PD", attr.MaxPD, 1, func() (io.Closer, error) { return dev.AllocPD() }},
		{"MR", attr.MaxMR, 0, func() (io.Closer, error) { return pd.RegMR(nil, 0) }},
		{"MW", attr.MaxMW, 0, func() (io.Closer, error) { return pd.AllocMW(verbs.MWType2) }},
		{"CQ", attr.MaxCQ, 0, func() (io.Closer, error) { return dev.CreateCQ(1, nil) }},
		{"SRQ", attr.MaxSRQ, 0, func() (io.Closer, error) { return pd.CreateSRQ(verbs.SRQInit{MaxWR: 1}) }},
		{"AH", attr.MaxAH, 0, func() (io.Closer, error) { return pd.CreateAH(verbs.AHAttr{DGID: self}) }},
		{"XRCD", attr.MaxXRCD, 0, func() (io.Closer, error) { return dev.OpenXRCD() }},
	} {
		var all []io.Closer
		for range c.limit - c.others {
			o, err := c.create()
			if err != nil {
				t.Fatalf("%s %d of %d: %v", c.kind, len(all), c.limit, err)
			}
			all = append(all, o)
		}
		if _, err := c.create(); !errors.Is(err, verbs.ErrNoMemory) {
			t.Errorf("%s: one more than %d: %v", c.kind, c.limit, err)
		}
		if err := all[0].Close(); err != nil {
			t.Error(err)
		}
		if all[0], err = c.create(); err != nil {
			t.Errorf("%s: after one was closed: %v", c.kind, err)
		}
		for _, o := range all {
			if err := o.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A number above a limit is refused with the limit's value.
func TestAboveLimits(t *testing.T) {
	var h memhub.Hub
	dev := driver.NewDevice(packetdev.New("test", "test", 1, h.NewPort()))
	defer dev.Close()
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := dev.CreateCQ(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	srq, err := pd.CreateSRQ(verbs.SRQInit{MaxWR: 1, MaxSGE: 3})
	if err != nil {
		t.Fatal(err)
	}
	attr := dev.Query()
	_, create := dev.CreateCQ(attr.MaxCQE+1, nil)
	_, wr := pd.CreateSRQ(verbs.SRQInit{MaxWR: attr.MaxSRQWR + 1})
	_, sge := pd.CreateSRQ(verbs.SRQInit{MaxWR: 1, MaxSGE: attr.MaxSGE + 1})
	for _, c := range []struct {
		err   error
		limit int
	}{{create, attr.MaxCQE}, {cq.Resize(attr.MaxCQE + 1), attr.MaxCQE}, {cq.Resize(0), attr.MaxCQE},
		{wr, attr.MaxSRQWR}, {sge, attr.MaxSGE},
		{srq.PostRecv(&verbs.RecvWR{SGL: make([]verbs.SGE, 4)}), 3}} {
		if !errors.Is(c.err, verbs.ErrInvalid) || !strings.Contains(c.err.Error(), strconv.Itoa(c.limit)) {
			t.Errorf("%v, want the limit %d", c.err, c.limit)
		}
	}
}
