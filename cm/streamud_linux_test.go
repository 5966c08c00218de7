// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"errors"
	"testing"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/shm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func openShared(t *testing.T) *verbs.Device {
	t.Helper()
	dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) { return shm.Open(addr, nil) })
	return dev
}

// TestSharedDatagramService and TestSharedDatagramServiceRefused are the tests of datagram services over
// shared memory, where streams look them up.
func TestSharedDatagramService(t *testing.T) { datagramService(t, openShared(t), openShared(t)) }

func TestSharedDatagramServiceRefused(t *testing.T) {
	datagramServiceRefused(t, openShared(t), openShared(t))
}

// A port offers connections or a datagram service. Requests for the other kind are refused.
func TestSharedPortSpaces(t *testing.T) {
	a, b := openShared(t), openShared(t)
	for _, c := range []struct {
		asks, offers cm.PortSpace
		want         cm.EventType
	}{{cm.UDP, cm.TCP, cm.Unreachable}, {cm.TCP, cm.UDP, cm.Rejected}} {
		server, client := listening(t, b, c.offers), newSide(t, a, c.asks)
		client.resolve(server.id.LocalAddr())
		client.addQP(client.id)
		ok(t, client.id.Connect(nil))
		var why *cm.RejectError
		if e := client.event(c.want); !errors.As(e.Err, &why) {
			t.Errorf("%v of %v: %v", c.asks, c.offers, e.Err)
		}
	}
}

// TestSharedMulticast joins a group of the host, which other processes may have in common.
func TestSharedMulticast(t *testing.T) {
	multicast(t, openShared(t), openShared(t), loopback.NextGroup())
}

// FuzzServiceReply decodes the private data of a peer's rejection.
func FuzzServiceReply(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add([]byte("RamjetUD\x00\x00\x00\x00\x00\x12\x34\x56\x01\x23\x45\x67hello"))
	f.Add([]byte("RamjetUD"))
	f.Fuzz(func(t *testing.T, b []byte) {
		again, private, valid := cm.ServiceReply(b)
		if valid && string(again)+string(private) != string(b) {
			t.Errorf("%x became %x and %x", b, again, private)
		}
	})
}
