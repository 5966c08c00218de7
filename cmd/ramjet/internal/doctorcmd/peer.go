// SPDX-License-Identifier: Apache-2.0

package doctorcmd

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/doctor"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/internal/system/rdmasys"
)

// examinePeer looks at the way to a peer.
func examinePeer(ctx context.Context, peer netip.Addr) *doctor.Peer {
	p := &doctor.Peer{Addr: peer}
	choices, err := kinds.ChoicesFor(peer)
	if err != nil {
		p.Problem = err.Error()
		return p
	}
	p.Route, p.Best, p.Not = choices.Route, choices.Best, choices.Unusable
	if p.Route.Local {
		return p
	}
	p.Path = rdmasys.Path(ctx, p.Route, peer)
	p.Service = serviceOf(ctx, peer)
	if p.Path.RoCE != rdmasys.NoAnswer {
		return p // nothing has the port there, or nothing gets there
	}
	own := kinds.Name{Kind: kinds.Default(), Address: p.Route.From.String()}.String()
	if slices.ContainsFunc(p.Best, func(c kinds.Choice) bool { return c.Name == own }) {
		p.Reply = askPeer(ctx, own, peer)
	}
	return p
}

const (
	// A peer's connection manager is asked for a service at a port where no listener is expected: tcpmux (RFC 1078).
	askedPort = 1
	askTime   = 3 * time.Second
	// lookupTime bounds the question for a service's name.
	lookupTime = 2 * time.Second
)

// askPeer asks the connection manager of a peer for a connection. Any answer shows that packets get there and back.
func askPeer(ctx context.Context, name string, peer netip.Addr) *doctor.Reply {
	r := &doctor.Reply{Device: name}
	dev, done, err := cli.OpenDevice(name, "", io.Discard)
	if err != nil {
		r.Text = "it could not ask: " + strings.TrimPrefix(err.Error(), "ramjet: ")
		return r
	}
	defer done()
	conn, err := cm.Dial(ctx, dev, netip.AddrPortFrom(peer, askedPort).String(), cm.WithTimeout(askTime))
	reject := (*cm.RejectError)(nil)
	switch {
	case err == nil:
		conn.Close()
		r.Answered, r.Text = true, "it accepts connections"
	case errors.As(err, &reject):
		r.Answered, r.Text = true, "it answers a request for a connection"
	case errors.Is(err, cm.ErrTimeout):
		r.Text = "no answer to a request for a connection after " + units.Duration(askTime)
	default:
		r.Text = err.Error()
	}
	return r
}

// serviceOf returns the service of Kubernetes to which an address belongs; nil: none is known.
func serviceOf(ctx context.Context, peer netip.Addr) *doctor.Service {
	if os.Getenv(rdmasys.KubernetesVariable) == "" {
		return nil
	}
	if s := serviceIn(os.Environ(), peer); s != nil {
		return s
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	names, err := net.DefaultResolver.LookupAddr(ctx, peer.WithZone("").String())
	if err != nil {
		return nil
	}
	return serviceNamed(names)
}

// serviceIn looks for an address among the variables that containers have for the services of their namespace, such as
// DB_SERVICE_HOST. Services without an address have none.
func serviceIn(environment []string, peer netip.Addr) *doctor.Service {
	for _, e := range environment {
		variable, value, _ := strings.Cut(e, "=")
		name, ok := strings.CutSuffix(variable, "_SERVICE_HOST")
		if a, err := netip.ParseAddr(value); ok && err == nil && a.Unmap() == peer {
			return &doctor.Service{Name: strings.ReplaceAll(strings.ToLower(name), "_", "-"), From: "$" + variable}
		}
	}
	return nil
}

// serviceNamed looks for a service among the names that DNS has for an address. The cluster's DNS has
// NAME.NAMESPACE.svc for the address of a service, and one label more for a pod of a service without an address.
func serviceNamed(names []string) *doctor.Service {
	for _, n := range names {
		labels := strings.Split(n, ".")
		if len(labels) > 3 && labels[2] == "svc" {
			return &doctor.Service{Name: labels[1] + "/" + labels[0], From: "by DNS"}
		}
	}
	return nil
}
