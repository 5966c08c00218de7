// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/steer"
	"github.com/ramjet-rdma/ramjet/internal/system/netio"
	"github.com/ramjet-rdma/ramjet/internal/system/portshare"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// joinTimeout is how long an address in use is taken to be shared: another process may be between
// binding it and opening its control socket.
const joinTimeout = 3 * time.Second

// listen binds the port's address, or joins the processes that have it already.
func (p *port) listen(plain bool) error {
	for until := time.Now().Add(joinTimeout); ; time.Sleep(2 * time.Millisecond) {
		sock, err := netio.Listen(p.local, netio.Options{Plain: plain})
		if err == nil {
			p.sock = sock
			if !plain {
				p.shareAddress()
			}
			return nil
		}
		if plain || !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
		if uid, ok := netio.Owner(p.local); ok && uid != os.Geteuid() {
			return &refusedError{fmt.Sprintf("in use by another user (uid %d)", uid)}
		}
		joinErr := p.join()
		if joinErr == nil {
			return nil
		}
		if !errors.Is(joinErr, portshare.ErrNoMember) {
			return &refusedError{joinErr.Error()}
		}
		if time.Now().After(until) {
			return err
		}
	}
}

// join makes the port one more of the group that has its address.
func (p *port) join() error { return p.joinBy(portshare.Join) }

// joinBeside makes the port one more of the group, with the descriptors that another port of this process has for it.
func (p *port) joinBeside(other *port) error {
	in, ok := other.group.(processes)
	if !ok { // it could not open its control socket
		return portshare.ErrNoMember
	}
	return p.joinBy(in.Join)
}

func (p *port) joinBy(join func(portshare.Config) (*portshare.Member, error)) error {
	m, err := join(p.shared())
	if err == nil {
		p.group = processes{m, p.local}
	} else if p.sock != nil {
		p.sock.Close()
		p.sock.Free()
		p.sock = nil
	}
	return err
}

// shared describes how the address is shared.
func (p *port) shared() portshare.Config {
	return portshare.Config{
		Name:    "roce/" + p.local.String(),
		Group:   func() ([]int, error) { return p.sock.Group(steer.Bits) },
		Steer:   func(socket, slot int) error { return netio.Steer(socket, steer.Bits, slot) },
		Adopt:   func(socket int) (err error) { p.sock, err = netio.Adopt(socket, p.local); return err },
		Receive: p.putForwarded,
	}
}

// shareAddress opens the control socket of an address that was just bound. If that fails, for example for lack of
// descriptors, the device works, but no other process can join it.
func (p *port) shareAddress() {
	if m, err := portshare.Create(p.shared()); err == nil {
		p.group = processes{m, p.local}
	}
}

// processes are the processes that share an address.
type processes struct {
	*portshare.Member
	local netip.AddrPort
}

// Claim converts errors to the errors of package verbs.
func (s processes) Claim(service, mask uint64) error {
	err := s.Member.Claim(service, mask)
	switch {
	case portshare.Claimed(err):
		return &verbs.OpError{Op: "claim_service", Err: verbs.ErrBusy, Detail: fmt.Sprintf(
			"service id %#x of %v has a listener in another process: use another port or service id", service,
			s.local.Addr())}
	case err != nil:
		return &verbs.OpError{Op: "claim_service", Err: verbs.ErrNoMemory, Detail: err.Error()}
	}
	return nil
}

// Release undoes Claim.
// the process's end releases it in any case
func (s processes) Release(service, mask uint64) { _ = s.Member.Release(service, mask) }
