// SPDX-License-Identifier: Apache-2.0

package dhchap

import (
	"crypto/hmac"
	"crypto/rand"
	"fmt"
)

// Identities are the two that prove that they have secrets.
type Identities struct {
	Host, Subsystem string // NQNs
	HostSecret      Secret // that the host proves to have
	// ControllerSecret is the secret that the controller proves to have. A host with none does not ask for it.
	ControllerSecret Secret
}

// response returns the response by which the host or the controller proves its secret (base 2.0, 8.13.5.4).
func (i *Identities) response(controller bool, hash Hash, dh, value []byte, sequence uint32,
	transaction uint16) []byte {
	if len(dh) > 0 { // the augmented challenge
		h := hash.new()()
		h.Write(dh)
		value = hash.mac(h.Sum(nil), value)
	}
	secret, role, owner, other := i.HostSecret, "HostHost", i.Host, i.Subsystem
	if controller {
		secret, role, owner, other = i.ControllerSecret, "Controller", i.Subsystem, i.Host
	}
	const noConcatenation = 0
	numbers := append(le.AppendUint16(le.AppendUint32(nil, sequence), transaction), noConcatenation)
	return hash.mac(secret.bound(owner), value, numbers, []byte(role), []byte(owner), []byte{0}, []byte(other))
}

// drawSequence draws a number that is not 0.
func drawSequence() uint32 {
	var b [4]byte
	rand.Read(b[:])
	return le.Uint32(b[:]) | 1
}

// Host is the host's side of one authentication.
type Host struct {
	Identities

	transaction uint16
	expects     message
	hash        Hash
	expected    []byte // response of the controller
	done        bool
}

// Negotiate returns the first message, of a transaction: it offers all hash functions and groups.
func (h *Host) Negotiate(transaction uint16) []byte {
	h.transaction, h.expects = transaction, challenge
	return (&offer{transaction: transaction, hashes: []Hash{SHA256, SHA384, SHA512},
		groups: []Group{Null, FFDHE2048, FFDHE3072, FFDHE4096, FFDHE6144, FFDHE8192}}).append(nil)
}

// Handle takes a message of the controller, and returns the one that the host sends; none: there is nothing to say.
// When there is an error the authentication has failed; the message tells the controller then.
func (h *Host) Handle(b []byte) (send []byte, err error) {
	send, e := h.handle(b)
	if e == 0 {
		return send, nil
	}
	h.expects = 0
	return appendFailure(nil, failure2, h.transaction, e), fmt.Errorf("dhchap: the controller's message: %w", e)
}

// Done reports whether the authentication has succeeded.
func (h *Host) Done() bool { return h.done }

// Refused is the error of [Host.Handle] for a Failure1.
type Refused struct{ Explanation Explanation }

// Error says why the controller has refused the host.
func (r *Refused) Error() string { return "dhchap: refused: " + r.Explanation.String() }

// Refusal returns the error of a message that is a Failure1; nil: it is another.
func Refusal(b []byte) error {
	var head header
	if !head.decode(b) || head.kind != failure1 || len(b) < 8 {
		return nil
	}
	return &Refused{Explanation(b[7])}
}

func (h *Host) handle(b []byte) ([]byte, Explanation) {
	var head header
	if !head.decode(b) || head.transaction != h.transaction {
		return nil, IncorrectPayload
	}
	if h.expects == negotiate || head.kind != h.expects { // negotiate, which is 0, is never expected
		return nil, IncorrectMessage
	}
	if head.kind == challenge {
		return h.answer(b)
	}
	response, e := decodeSuccess1(b, h.hash.Size())
	switch {
	case e != 0:
		return nil, e
	case h.expected == nil:
		h.done, h.expects = true, 0
		return nil, 0
	case !hmac.Equal(response, h.expected):
		return nil, Failed
	}
	h.done, h.expects = true, 0
	return appendSuccess2(nil, h.transaction), 0
}

// answer answers a challenge.
func (h *Host) answer(b []byte) ([]byte, Explanation) {
	var q question
	if e := q.decode(b); e != 0 {
		return nil, e
	}
	x := newExchange(q.group)
	dh, ok := x.secret(q.public)
	if !ok {
		return nil, IncorrectPayload
	}
	a := answer{transaction: h.transaction, sequence: drawSequence(), public: x.public,
		response: h.response(false, q.hash, dh, q.value, q.sequence, h.transaction)}
	if !h.ControllerSecret.IsZero() {
		a.challenge = make([]byte, q.hash.Size())
		rand.Read(a.challenge)
		h.expected = h.response(true, q.hash, dh, a.challenge, a.sequence, h.transaction)
	}
	h.hash, h.expects = q.hash, success1
	return a.append(nil), 0
}
