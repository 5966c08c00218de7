// SPDX-License-Identifier: Apache-2.0

package nvme

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/ramjet-rdma/ramjet/nvme/dhchap"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
)

// HostSecrets holds the secrets by which a host and the target prove their identities to each other, and with which
// hash and group they do so.
type HostSecrets struct {
	Host       dhchap.Secret
	Controller dhchap.Secret // zero: hosts that ask the target to prove itself are refused
	Hash       dhchap.Hash   // default SHA-256
	Group      dhchap.Group  // default none
}

// checkSecrets returns an error if a subsystem's secrets are wrong.
func checkSecrets(o *SubsystemOptions) error {
	if o.AnyHost && len(o.Secrets) > 0 {
		return errors.New("nvme: a subsystem that lets in any host, and has secrets: hosts would get in without theirs")
	}
	for nqn, s := range o.Secrets {
		if err := CheckNQN(nqn); err != nil {
			return err
		}
		switch {
		case s.Host.IsZero():
			return fmt.Errorf("nvme: host %s has no secret: name it in Hosts if it need not prove who it is", nqn)
		case s.Hash != 0 && s.Hash.Size() == 0 || !s.Group.Known():
			return fmt.Errorf("nvme: host %s: %v, %v: there are SHA-256, SHA-384, SHA-512, and ffdhe2048 to ffdhe8192",
				nqn, s.Hash, s.Group)
		}
	}
	return nil
}

// lock makes the queue take no commands before the host has proved its identity, if it has to. It returns the result of
// the response to Connect, which asks for that.
func (q *queue) lock(c *controller) uint64 {
	if c.sub == nil {
		return 0
	}
	s, ok := c.sub.opt.Secrets[c.hostNQN]
	if !ok {
		return 0
	}
	q.auth = &dhchap.Controller{Hash: cmp.Or(s.Hash, dhchap.SHA256), Group: s.Group,
		Identities: dhchap.Identities{Host: c.hostNQN, Subsystem: c.sub.opt.NQN, HostSecret: s.Host,
			ControllerSecret: s.Controller}}
	q.locked.Store(true)
	return wire.ConnectAuthenticate
}

// authSend carries out Authentication Send (base 2.0, 6.2): a message of the host.
func (r *request) authSend() wire.Status {
	q := r.q
	n, ok := r.cmd.Auth()
	switch {
	case q.auth == nil:
		return wire.CommandSequenceError
	case !ok || n == 0 || n > wire.IdentifySize:
		return wire.InvalidField
	}
	b, s := r.pull(int(n), 0)
	if s != wire.Success {
		return s
	}
	q.linked.Lock()
	defer q.linked.Unlock()
	before := q.auth.Done()
	message, err := q.auth.Handle(b)
	q.locked.Store(!q.auth.Done())
	q.message = message
	switch {
	case err != nil:
		q.t.log.Warn("a host has not authenticated", "peer", q.peer, "host", q.auth.Host, "subsystem", q.auth.Subsystem,
			"queue", q.req.QID, "error", err)
	case !before && q.auth.Done():
		q.t.log.Info("a host has authenticated", "peer", q.peer, "host", q.auth.Host, "subsystem", q.auth.Subsystem,
			"queue", q.req.QID)
	}
	return wire.Success
}

// authReceive carries out Authentication Receive (base 2.0, 6.1): the message for the host.
func (r *request) authReceive() wire.Status {
	q := r.q
	n, ok := r.cmd.Auth()
	if !ok || n == 0 || n > wire.IdentifySize {
		return wire.InvalidField
	}
	q.linked.Lock()
	message := q.message
	q.message = nil
	q.linked.Unlock()
	switch {
	case message == nil:
		return wire.CommandSequenceError
	case len(message) > int(n):
		return wire.InvalidField
	}
	to, s := r.room(int(n))
	if s == wire.Success {
		clear(to[copy(to, message):])
	}
	return s
}
