// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/umad"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// A peer that has not heard that its DREQ was answered repeats it: it gets a DREP also
// after the last id was closed, when nothing is known of the connection any more.
func TestAnswerAfterLastID(t *testing.T) {
	a, b := open(t), open(t)
	ok(t, listen(t, a).Close())
	gids, err := a.GIDs(1)
	ok(t, err)
	g, err := umad.Open(b, 1, ib.QP1, umad.Spec{Class: mad.ClassCM, Methods: []mad.Method{mad.MethodSend}})
	ok(t, err)
	dreq := mad.DREQ{LocalCommID: 0x11111111, RemoteCommID: 0x22222222, RemoteQPN: 0x333}
	h := mad.CMHeader(mad.AttrDREQ, 0x4444)
	msg := make([]byte, mad.Size)
	copy(msg, dreq.Append(h.Append(nil)))
	ok(t, g.Send(umad.Path{AH: verbs.AHAttr{DGID: gids[0].GID}}, msg))
	n, _, err := g.Recv(within(t), msg)
	ok(t, err)
	var drep mad.DREP
	if !h.Decode(msg[:n]) || h.Attribute != mad.AttrDREP || h.TID != 0x4444 || !drep.Decode(msg[mad.HeaderLen:n]) ||
		drep.LocalCommID != dreq.RemoteCommID || drep.RemoteCommID != dreq.LocalCommID {
		t.Errorf("answered with %+v %+v", h, drep)
	}
	ok(t, g.Close())
}
