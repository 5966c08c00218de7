// SPDX-License-Identifier: Apache-2.0

package softdev_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/packetdev"
	"github.com/ramjet-rdma/ramjet/internal/testkit/memhub"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// TestDropped drops devices without closing them: the garbage collector closes their ports,
// whatever they have left behind.
func TestDropped(t *testing.T) {
	for name, use := range map[string]func(*testing.T, *verbs.Device){
		"nothing": func(*testing.T, *verbs.Device) {},
		"an event that nobody fetched": func(t *testing.T, dev *verbs.Device) {
			overflow(t, dev, nil)
		},
		"a queue with a channel": func(t *testing.T, dev *verbs.Device) {
			ch, err := dev.CreateCompChannel()
			if err != nil {
				t.Fatal(err)
			}
			overflow(t, dev, ch)
		},
	} {
		var h memhub.Hub
		port := h.NewPort()
		func() { use(t, driver.NewDevice(packetdev.New("test", "test", 1, port))) }()
		for end := time.Now().Add(2 * time.Minute); !port.IsClosed(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("a device with %s was not freed", name)
			}
			runtime.GC()
		}
	}
}

// overflow leaves a queue pair, a region and an overflowed completion queue behind, whose
// events are not fetched.
func overflow(t *testing.T, dev *verbs.Device, ch *verbs.CompChannel) {
	t.Helper()
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := dev.CreateCQ(1, &verbs.CQOptions{Channel: ch})
	if err != nil {
		t.Fatal(err)
	}
	if err := cq.ReqNotify(false); err != nil {
		t.Fatal(err)
	}
	qp, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pd.RegMR(make([]byte, 64), verbs.LocalWrite); err != nil {
		t.Fatal(err)
	}
	ep, err := qp.Endpoint(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := qp.Connect(ep, ep, nil); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := qp.PostRecv(&verbs.RecvWR{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := qp.Modify(verbs.QPAttr{State: verbs.StateError}, verbs.MaskState); err != nil {
		t.Fatal(err)
	}
	if cq.Err() == nil {
		t.Fatal("the queue did not overflow")
	}
}
