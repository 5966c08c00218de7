// SPDX-License-Identifier: Apache-2.0

package dhchap

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
)

// sides returns both sides of an authentication; mutual: the controller has to prove itself too.
func sides(t testing.TB, hash Hash, group Group, mutual bool) (*Host, *Controller) {
	i := Identities{Host: "nqn.2026-01.org.example:host", Subsystem: "nqn.2026-01.org.example:disks",
		HostSecret: secretOf(t, SHA256)}
	if mutual {
		i.ControllerSecret = secretOf(t, SHA512)
	}
	return &Host{Identities: i}, &Controller{Identities: i, Hash: hash, Group: group}
}

// play carries messages until a side has none. change may change messages, by their number.
func play(h *Host, c *Controller, change func(n int, b []byte) []byte) (hostErr, controllerErr error) {
	send, n := h.Negotiate(7), 0
	for ; send != nil; n += 2 {
		var receive []byte
		receive, controllerErr = c.Handle(change(n, send))
		if receive == nil || controllerErr != nil && Refusal(receive) == nil {
			return hostErr, controllerErr
		}
		if err := Refusal(receive); err != nil {
			return err, controllerErr
		}
		if send, hostErr = h.Handle(change(n+1, receive)); hostErr != nil {
			if e := (&header{}); !e.decode(send) || e.kind != failure2 {
				return fmt.Errorf("%w, and then %x", hostErr, send), nil
			}
			_, controllerErr = c.Handle(send)
			return hostErr, controllerErr
		}
	}
	return nil, nil
}

func same(_ int, b []byte) []byte { return b }

func TestAuthentication(t *testing.T) {
	for hash := SHA256; hash <= SHA512; hash++ {
		for group := range FFDHE8192 + 1 {
			for _, mutual := range []bool{false, true} {
				h, c := sides(t, hash, group, mutual)
				if a, b := play(h, c, same); a != nil || b != nil || !h.Done() || !c.Done() {
					t.Errorf("%v, %v, mutual %t: %v, %v", hash, group, mutual, a, b)
				}
			}
		}
	}
}

// A side that does not have the secret is refused, and so is one that has it under another name.
func TestWrongSecrets(t *testing.T) {
	for name, change := range map[string]func(h *Host, c *Controller){
		"host's secret":       func(h *Host, c *Controller) { h.HostSecret = secretOf(t, SHA384) },
		"host's name":         func(h *Host, c *Controller) { h.Identities.Host += "x" },
		"subsystem's name":    func(h *Host, c *Controller) { c.Subsystem += "x" },
		"no secret to prove":  func(h *Host, c *Controller) { c.ControllerSecret = Secret{} },
		"controller's secret": func(h *Host, c *Controller) { c.ControllerSecret = secretOf(t, 0) },
	} {
		h, c := sides(t, SHA256, Null, true)
		change(h, c)
		a, b := play(h, c, same)
		if a == nil || b == nil || h.Done() || c.Done() || !errors.Is(b, Failed) {
			t.Errorf("%s: %v, %v", name, a, b)
		}
		if _, err := c.Handle(h.Negotiate(7)); !errors.Is(err, IncorrectMessage) {
			t.Errorf("%s: a second attempt: %v", name, err)
		}
	}
}

// A host that does not have what the controller demands is told so.
func TestNegotiation(t *testing.T) {
	offers := func(o offer) []byte { o.transaction = 9; return o.append(nil) }
	good := offer{hashes: []Hash{SHA256, 99}, groups: []Group{FFDHE2048, 99}}
	other := offers(good)
	other[8] = 2 // another protocol
	for name, c := range map[string]struct {
		b    []byte
		want Explanation
	}{
		"good":    {offers(good), 0},
		"hash":    {offers(offer{hashes: []Hash{SHA384}, groups: good.groups}), HashNotUsable},
		"group":   {offers(offer{hashes: good.hashes, groups: []Group{Null}}), GroupNotUsable},
		"no hash": {offers(offer{groups: good.groups}), IncorrectPayload},
		"secure channel": {offers(offer{hashes: good.hashes, groups: good.groups, concatenate: 1}),
			ConcatenationDiffer},
		"protocol":        {other, ProtocolNotUsable},
		"second protocol": {append(append(other[:7:7], 2), append(other[8:72:72], offers(good)[8:]...)...), 0},
		"nothing":         {nil, IncorrectPayload},
		"a byte":          {[]byte{0}, IncorrectPayload},
		"short":           {offers(good)[:71], IncorrectPayload},
		"no negotiation":  {appendSuccess2(nil, 9), IncorrectPayload},
	} {
		ctrl := &Controller{Hash: SHA256, Group: FFDHE2048}
		b, err := ctrl.Handle(c.b)
		var refused *Refused
		switch {
		case c.want == 0 && (err != nil || Refusal(b) != nil):
			t.Errorf("%s: %v", name, err)
		case c.want != 0 && (!errors.Is(err, c.want) || !errors.As(Refusal(b), &refused) ||
			refused.Explanation != c.want):
			t.Errorf("%s: %v, %v", name, err, Refusal(b))
		}
	}
}

// Whichever byte of a challenge, a reply or a success is changed: at least one side does not authenticate the other.
// Reserved bytes change nothing.
func TestChangedMessages(t *testing.T) {
	reserved := map[int][]int{1: {2, 3, 7}, 2: {2, 3, 7, 9}, 3: {2, 3, 7, 9, 10, 11, 12, 13, 14, 15}}
	for n := 1; n <= 3; n++ {
		for at, more := 0, true; more; at++ {
			if more = false; slices.Contains(reserved[n], at) {
				more = true
				continue
			}
			h, c := sides(t, SHA256, FFDHE2048, true)
			play(h, c, func(k int, b []byte) []byte {
				if k == n && at < len(b) {
					more, b = true, bytes.Clone(b)
					b[at] ^= 1
				}
				return b
			})
			if more && h.Done() && c.Done() {
				t.Errorf("message %d, byte %d", n, at)
			}
		}
	}
}

// A challenge that comes back to its sender is not answered.
func TestReflection(t *testing.T) {
	h, c := sides(t, SHA256, Null, true)
	b, err := c.Handle(h.Negotiate(1))
	if err != nil {
		t.Fatal(err)
	}
	var q question
	q.decode(b)
	a := answer{transaction: 1, sequence: q.sequence, challenge: q.value,
		response: h.response(false, SHA256, nil, q.value, q.sequence, 1)}
	if _, err := c.Handle(a.append(nil)); !errors.Is(err, Failed) || c.Done() {
		t.Error(err)
	}
}

// Any messages of a host leave the controller in good order, and none of them is a proof.
func FuzzController(f *testing.F) {
	h, c := sides(f, SHA256, Null, true)
	offer := h.Negotiate(7)
	question, _ := c.Handle(offer)
	answer, _ := h.Handle(question)
	f.Add([]byte{}, []byte{0})
	f.Add(offer, answer)
	f.Add(offer, appendSuccess2(nil, 7))
	f.Add(offer, appendFailure(nil, failure2, 7, Failed))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		_, c := sides(t, SHA256, Null, true)
		for _, b := range [][]byte{first, second, second} {
			if send, _ := c.Handle(b); len(send) > MaxMessage {
				t.Errorf("a message of %d bytes", len(send))
			}
			if c.Done() {
				t.Fatal("a proof without the secret")
			}
		}
	})
}

// Any messages of a controller leave the host in good order, and none of them is a proof.
func FuzzHost(f *testing.F) {
	h, c := sides(f, SHA256, Null, true)
	question, _ := c.Handle(h.Negotiate(7))
	answer, _ := h.Handle(question)
	success, _ := c.Handle(answer)
	f.Add([]byte{}, []byte{0})
	f.Add(question, success)
	f.Add(question, appendSuccess1(nil, 7, SHA256, nil))
	f.Add(appendFailure(nil, failure1, 7, HashNotUsable), []byte{1})
	f.Fuzz(func(t *testing.T, first, second []byte) {
		h, _ := sides(t, SHA256, Null, true)
		h.Negotiate(7)
		for _, b := range [][]byte{first, second, second} {
			Refusal(b)
			if send, _ := h.Handle(b); len(send) > MaxMessage {
				t.Errorf("a message of %d bytes", len(send))
			}
			if h.Done() {
				t.Fatal("a proof without the secret")
			}
		}
	})
}
