// SPDX-License-Identifier: Apache-2.0

// Atomics has several clients draw numbers from one counter in another device's memory, and then has them
// race for a lock there.
package main

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/docs/learn/programs/kit"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const clients, each = 4, 25

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
	defer cancel()
	server, client := kit.Must(ramjet.Open("roce:127.0.71.9")), kit.Must(ramjet.Open("roce:127.0.71.10"))
	defer server.Close()
	defer client.Close()

	pd := kit.Must(server.AllocPD())
	words := kit.Must(pd.AllocMR(16, verbs.LocalWrite|verbs.RemoteAtomic)) // page-aligned: a counter, a lock
	counter, lock := words.Remote(), words.Remote().At(8)
	l := kit.Must(cm.Listen(ctx, server, ":0", cm.WithPD(pd)))

	var mu sync.Mutex
	var tickets, winners []uint64
	var wg sync.WaitGroup
	for n := range uint64(clients) {
		go l.Accept(ctx)
		conn := kit.Must(cm.Dial(ctx, client, l.Addr().String()))
		wg.Go(func() {
			for range each {
				ticket := kit.Must(conn.FetchAdd(ctx, counter, 1))
				mu.Lock()
				tickets = append(tickets, ticket)
				mu.Unlock()
			}
			if old := kit.Must(conn.CompareSwap(ctx, lock, 0, n+1)); old == 0 {
				mu.Lock()
				winners = append(winners, n)
				mu.Unlock()
			}
		})
	}
	wg.Wait()

	slices.Sort(tickets)
	fmt.Printf("%d tickets drawn, %d different, from %d to %d\n", len(tickets),
		len(slices.Compact(slices.Clone(tickets))),
		tickets[0], tickets[len(tickets)-1])
	fmt.Println(len(winners), "of", clients, "clients got the lock")
}
