// SPDX-License-Identifier: Apache-2.0

package ramjet_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// openNIC opens a device of a kind that acts as a NIC, on an address of its own.
func openNIC(t *testing.T, kind string) *verbs.Device {
	t.Helper()
	dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) {
		return ramjet.Open(kind+":"+addr, ramjet.WithNIC())
	})
	return dev
}

// TestWithNIC: a program that never signals finds its queue full on a device that acts as a NIC, and has room on other
// devices.
func TestWithNIC(t *testing.T) {
	for _, kind := range []string{"roce", "iwarp", "shm"} {
		t.Run(kind, func(t *testing.T) {
			plain, _ := loopback.Open(t, func(addr string) (*verbs.Device,
				error) {
				return ramjet.Open(kind + ":" + addr)
			})
			for dev, strict := range map[*verbs.Device]bool{openNIC(t, kind): true, plain: false} {
				pd, err := dev.AllocPD()
				if err != nil {
					t.Fatal(err)
				}
				if full := fills(t, pd); full != strict {
					t.Errorf("acts as a NIC: %v, and its send queue stays full: %v", strict, full)
				}
			}
		})
	}
}

// fills posts unsignaled work requests until the queue takes no more, and reports whether it stays so.
func fills(t *testing.T, pd *verbs.PD) bool {
	t.Helper()
	dev := pd.Device()
	cq, err := dev.CreateCQ(4, nil)
	if err != nil {
		t.Fatal(err)
	}
	var qps [2]*verbs.QP
	var eps [2]verbs.Endpoint
	for i := range qps {
		if qps[i], err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq,
			Cap: verbs.QPCap{MaxSendWR: 2}}); err != nil {
			t.Fatal(err)
		}
		if eps[i], err = qps[i].Endpoint(0); err != nil {
			t.Fatal(err)
		}
	}
	for i, qp := range qps {
		if err := qp.Connect(eps[i], eps[1-i], nil); err != nil {
			t.Fatal(err)
		}
	}
	mr, err := pd.RegMR(make([]byte, 8), verbs.LocalWrite|verbs.RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	ctx := faultContext(t)
	for n := 0; ; n++ {
		s, _ := qps[0].Stats() // before: a full queue may be empty after
		err := qps[0].PostSend(&verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{mr.SGE(0, 8)}, Remote: mr.Remote()})
		switch {
		case err == nil && n > 2:
			return false
		case err != nil && !errors.Is(err, verbs.ErrQueueFull):
			t.Fatal(err)
		case err != nil && n >= 2 && s.SendQueue == 0:
			return true
		case ctx.Err() != nil:
			t.Fatal(ctx.Err())
		}
		cq.Poll(make([]verbs.WC, 1)) // it moves the data
	}
}

// TestNICVariable: the environment decides where the program does not, and only of devices in software.
func TestNICVariable(t *testing.T) {
	t.Setenv("RAMJET_NIC", "on")
	if _, err := ramjet.Open("roce:127.0.0.1"); err == nil ||
		!strings.Contains(err.Error(), `RAMJET_NIC is "on": 1 has devices act as NICs`) {
		t.Errorf("%v", err)
	}
	t.Setenv("RAMJET_NIC", "1")
	dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) { return ramjet.Open("iwarp:" + addr) })
	if n := dev.Query().MaxSGERead; n != 1 {
		t.Errorf("MaxSGERead is %d, want that of a NIC for iWARP", n)
	}
	t.Setenv("RAMJET_NIC", "0")
	dev, _ = loopback.Open(t, func(addr string) (*verbs.Device, error) { return ramjet.Open("iwarp:" + addr) })
	if n := dev.Query().MaxSGERead; n == 1 {
		t.Errorf("MaxSGERead is %d", n)
	}
}
