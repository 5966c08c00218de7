// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/rdmatest"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// output keeps the output of a world's programs.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

// TestTickets: no ticket is drawn twice, whatever befalls the network and the clients, and none is left out as long
// as no client dies.
func TestTickets(t *testing.T) {
	rdmatest.Run(t, 30, play)
}

// TestLostUpdate: of clients that read the counter and replace it, without a look at whether it has changed since, two
// draw the same ticket, and the test finds that.
func TestLostUpdate(t *testing.T) {
	finds(t, "is drawn twice", func(ctx context.Context, conn *cm.Conn, counter verbs.Remote) (uint64, error) {
		ticket, err := conn.FetchAdd(ctx, counter, 0)
		if err != nil {
			return 0, err
		}
		_, err = conn.CompareSwap(ctx, counter, ticket, ticket+1)
		return ticket, err
	})
}

// TestImpatience: clients that draw again if no answer comes in time have added twice, and the test finds the ticket
// that nobody has.
func TestImpatience(t *testing.T) {
	finds(t, "nobody has ticket", func(ctx context.Context, conn *cm.Conn, counter verbs.Remote) (uint64, error) {
		for {
			soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			ticket, err := conn.FetchAdd(soon, counter, 1)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				return ticket, err
			}
		}
	})
}

// finds has clients draw by a mistake, which the test has to find.
func finds(t *testing.T, want string, mistake func(context.Context, *cm.Conn, verbs.Remote) (uint64, error)) {
	t.Helper()
	right := next
	defer func() { next = right }()
	next = mistake
	f := rdmatest.Find(t, 1000, play)
	if f == nil || !strings.Contains(f.Texts[0], want) {
		t.Fatalf("it is not found: %v", f)
	}
	t.Log(f)
}

// play has clients draw tickets.
func play(w *rdmatest.World) {
	said := &output{}
	out = said
	open := []func(*rdmatest.Host) *verbs.Device{(*rdmatest.Host).RoCE, (*rdmatest.Host).IWARP}[w.Rand.IntN(2)]
	server := w.Host("server")
	dev := open(server)
	server.Go(func(ctx context.Context) error { return serve(ctx, dev) })

	var clients []*rdmatest.Host
	for i := range 1 + w.Rand.IntN(3) {
		clients = append(clients, w.Host(fmt.Sprint("client", i)))
	}
	each, total := 1+w.Rand.IntN(20), 0
	var draws []*rdmatest.Task
	for _, c := range clients {
		dev := open(c)
		draws = append(draws,
			c.Go(func(ctx context.Context) error { return draw(ctx, dev, server.Addr().String(), each) }))
	}
	w.Draw(rdmatest.Packets | rdmatest.Passing)
	w.Draw(rdmatest.Fatal, clients...)
	died := false
	for i, d := range draws {
		switch err := d.Wait(); {
		case clients[i].Died():
			died = true
		case err != nil:
			w.Fatalf("%v: %v", clients[i], err)
		default:
			total += each
		}
	}

	drawn := make(map[string]bool)
	for line := range strings.Lines(said.text.String()) {
		if number, ok := strings.CutPrefix(strings.TrimSpace(line), "ticket "); ok {
			if drawn[number] {
				w.Fatalf("ticket %v is drawn twice", number)
			}
			drawn[number] = true
		}
	}
	if !died && len(drawn) != total {
		w.Fatalf("%d tickets are drawn, want %d", len(drawn), total)
	}
	for i := range total {
		if !died && !drawn[fmt.Sprint(i)] {
			w.Fatalf("nobody has ticket %d", i)
		}
	}
}
