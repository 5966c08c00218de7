// SPDX-License-Identifier: Apache-2.0

package pingpong

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/usage"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	// addressLen is the length of an address on the wire: "LID:QPN:PSN:GID" in hexadecimal, with 4,
	// 6, 6 and 32 digits, and a zero byte.
	addressLen = 4 + 1 + 6 + 1 + 6 + 1 + 32 + 1
	// srqAddresses is how many addresses ibv_srq_pingpong exchanges, however many it uses.
	srqAddresses = 256
	doneText     = "done\x00"
	exchangeTime = 30 * time.Second
)

// appendAddress appends an endpoint in wire format.
func appendAddress(b []byte, ep verbs.Endpoint) []byte {
	return fmt.Appendf(b, "%04x:%06x:%06x:%x\x00", ep.LID, uint32(ep.QPN), uint32(ep.PSN), ep.GID[:])
}

// parseAddress is the inverse of appendAddress.
func parseAddress(b []byte) (ep verbs.Endpoint, err error) {
	bad := fmt.Errorf("the peer's address %q is not of the form LID:QPN:PSN:GID: is it a pingpong of the same kind?", b)
	fields := strings.Split(strings.TrimRight(string(b), "\x00"), ":")
	if len(b) != addressLen || len(fields) != 4 || len(fields[3]) != 2*len(ep.GID) {
		return ep, bad
	}
	var numbers [3]uint64
	for i, bits := range []int{16, 24, 24} {
		if numbers[i], err = strconv.ParseUint(fields[i], 16, bits); err != nil {
			return ep, bad
		}
	}
	if _, err := hex.Decode(ep.GID[:], []byte(fields[3])); err != nil {
		return ep, bad
	}
	ep.LID, ep.QPN, ep.PSN = uint16(numbers[0]), verbs.QPN(numbers[1]), verbs.PSN(numbers[2])
	return ep, nil
}

// addresses returns how many addresses the sides exchange.
func (p *pingpong) addresses() int {
	if p.Kind.srq {
		return srqAddresses
	}
	return 1
}

// exchangeAsClient sends our addresses, receives the server's, and confirms them.
func (p *pingpong) exchangeAsClient(ctx context.Context, host string) error {
	server := net.JoinHostPort(host, strconv.Itoa(int(p.Port)))
	conn, err := (&net.Dialer{Timeout: exchangeTime}).DialContext(ctx, "tcp", server)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("the server cannot be reached: %w: start it first, `ramjet pingpong %s` there", err,
			p.Kind.Name)
	}
	return p.exchange(ctx, conn, func() error {
		if err := p.sendAddresses(conn); err != nil {
			return err
		}
		if err := p.receiveAddresses(conn); err != nil {
			return err
		}
		if _, err := io.WriteString(conn, doneText); err != nil {
			return err
		}
		return p.connect()
	})
}

// listen opens the port for clients.
func (p *pingpong) listen(ctx context.Context) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(int(p.Port))))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, usage.Errorf("TCP port %d is in use: give both sides another one with --port", p.Port)
	}
	if err != nil {
		return nil, usage.Of(err)
	}
	return l, nil
}

// exchangeAsServer waits for a client, receives its addresses, connects, and sends ours.
func (p *pingpong) exchangeAsServer(ctx context.Context, l net.Listener) error {
	defer context.AfterFunc(ctx, func() { l.Close() })()
	conn, err := l.Accept()
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	return p.exchange(ctx, conn, func() error {
		if err := p.receiveAddresses(conn); err != nil {
			return err
		}
		if err := p.connect(); err != nil {
			return err
		}
		if err := p.sendAddresses(conn); err != nil {
			return err
		}
		_, err := io.ReadFull(conn, make([]byte, len(doneText)))
		return err
	})
}

// exchange runs f with the connection, within exchangeTime and until ctx ends.
func (p *pingpong) exchange(ctx context.Context, conn net.Conn, f func() error) error {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(exchangeTime))
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	err := f()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the peer ended the exchange of addresses: see what it says")
	}
	return fmt.Errorf("exchanging addresses with %v: %w", conn.RemoteAddr(), err)
}

func (p *pingpong) sendAddresses(conn net.Conn) error {
	var b []byte
	for i := range p.addresses() {
		var ep verbs.Endpoint
		if i < len(p.local) {
			ep = p.local[i]
		}
		b = appendAddress(b, ep)
	}
	_, err := conn.Write(b)
	return err
}

func (p *pingpong) receiveAddresses(conn net.Conn) error {
	b := make([]byte, addressLen*p.addresses())
	if _, err := io.ReadFull(conn, b); err != nil {
		return err
	}
	for i := range p.local {
		ep, err := parseAddress(b[i*addressLen:][:addressLen])
		if err != nil {
			return err
		}
		if ep.QPN == 0 {
			return fmt.Errorf("the peer has %d queue pairs and this side %d: give both the same --num-qp", i,
				len(p.local))
		}
		if ep.GID == (verbs.GID{}) && (ep.LID == 0 || p.local[i].LID == 0) {
			return errors.New("the peer sent no GID, so there is no IP address to send to: start it with -g and a row of its GID table")
		}
		p.remote = append(p.remote, ep)
	}
	return nil
}
