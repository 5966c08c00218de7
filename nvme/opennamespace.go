// SPDX-License-Identifier: Apache-2.0

package nvme

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/ramjet-rdma/ramjet/nvme/wire"
)

// openNamespace is a namespace that a program has opened: when the host has connected again, it has to be the same.
type openNamespace struct {
	id    uint32
	block uint32
	nguid [16]byte

	mu    sync.Mutex
	other bool // the controller has another disk of this number now
}

// usable returns why commands for the namespace make no sense; nil: they do.
func (n *openNamespace) usable() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.other {
		return fmt.Errorf("nvme: namespace %d is another disk since the host has connected again: %w", n.id,
			wire.InvalidNamespace)
	}
	return nil
}

// openNamespaces are the namespaces that a program has opened, by number. The zero value has none.
type openNamespaces struct {
	mu   sync.Mutex
	list map[uint32]*openNamespace
}

// remember returns the namespace that a program opens.
func (o *openNamespaces) remember(id uint32, n *wire.Namespace) *openNamespace {
	o.mu.Lock()
	defer o.mu.Unlock()
	old := o.list[id]
	if old == nil || old.usable() != nil || old.block != n.BlockSize || old.nguid != n.NGUID {
		old = &openNamespace{id: id, block: n.BlockSize, nguid: n.NGUID}
		if o.list == nil {
			o.list = map[uint32]*openNamespace{}
		}
		o.list[id] = old
	}
	return old
}

// verify sees whether the namespaces that are open are the same on a new association.
func (c *Controller) verify(ctx context.Context, a *association) error {
	c.opened.mu.Lock()
	open := slices.SortedFunc(maps.Values(c.opened.list),
		func(a, b *openNamespace) int { return int(a.id) - int(b.id) })
	c.opened.mu.Unlock()
	for _, o := range open {
		b, err := a.identify(ctx, "identify namespace", wire.IdentifyNamespace, o.id)
		if errors.Is(err, wire.InvalidNamespace) || err == nil && allZero(b) {
			continue // it may come back, and until then the controller refuses commands
		}
		if err != nil {
			return err
		}
		var n wire.Namespace
		if !n.Decode(b) || n.BlockSize != o.block || n.NGUID != o.nguid {
			o.mu.Lock()
			o.other = true
			o.mu.Unlock()
		}
	}
	return nil
}
