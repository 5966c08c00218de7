// SPDX-License-Identifier: Apache-2.0

package nvme

import (
	"context"
	"errors"
	"fmt"

	"github.com/ramjet-rdma/ramjet/nvme/dhchap"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
)

// ErrAuthentication is the error of a host that the controller refuses, or that refuses the controller, because one has
// not proved that it has its secret.
var ErrAuthentication = errors.New("authentication has failed")

// authenticate carries out the authentication that the result of a Connect asks for.
func (q *hostQueue) authenticate(ctx context.Context, result uint64) error {
	o := &q.a.c.opt
	switch {
	case result&wire.ConnectSecureChannel != 0:
		return fmt.Errorf("%w: the controller asks for a secure channel, which NVMe over RDMA does not have",
			ErrAuthentication)
	case result&wire.ConnectAuthenticate == 0 && !o.ControllerSecret.IsZero():
		return fmt.Errorf("%w: the controller asks for none, and would prove nothing: leave out ControllerSecret if "+
			"that is right", ErrAuthentication)
	case result&wire.ConnectAuthenticate == 0:
		return nil
	case o.Secret.IsZero():
		return fmt.Errorf("%w: the controller asks for it, and there is no Secret", ErrAuthentication)
	}
	h := dhchap.Host{Identities: dhchap.Identities{Host: o.NQN, Subsystem: q.a.c.nqn, HostSecret: o.Secret,
		ControllerSecret: o.ControllerSecret}}
	// The queue's number makes the transactions of an association differ.
	for send := h.Negotiate(q.qid); send != nil; {
		if err := q.authSend(ctx, send); err != nil {
			return err
		}
		if h.Done() {
			return nil
		}
		var receive wire.Command
		receive.SetAuth(wire.AuthReceive, wire.IdentifySize)
		b := make([]byte, wire.IdentifySize)
		if _, err := q.do(ctx, "authentication receive", &receive, nil, b); isLost(err) {
			// as Linux may refuse one
			return fmt.Errorf("while authenticating, with a secret that may be wrong: %w", err)
		} else if err != nil {
			return err
		}
		if err := dhchap.Refusal(b); err != nil {
			return fmt.Errorf("%w: %w", ErrAuthentication, err)
		}
		var err error
		if send, err = h.Handle(b); err != nil {
			q.authSend(ctx, send) // a courtesy
			return fmt.Errorf("%w: %w", ErrAuthentication, err)
		}
	}
	return nil
}

func (q *hostQueue) authSend(ctx context.Context, message []byte) error {
	var send wire.Command
	send.SetAuth(wire.AuthSend, len(message))
	_, err := q.do(ctx, "authentication send", &send, message, nil)
	return err
}
