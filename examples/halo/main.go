// SPDX-License-Identifier: Apache-2.0

// Halo solves the heat equation on a plate, as MPI programs do: each rank has some rows of the grid, and
// before each step it needs the rows at its neighbors' borders. They WRITE them to where it uses them. The
// immediate data say that they have.
//
//	go run ./examples/halo                   four ranks, each a process of its own
//
// At the end each rank solves the whole by itself, and compares its rows.
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"log"
	"math"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	width  = 128 // of the plate, in points
	height = 128
	row    = 8 * width // bytes
	port   = 7485      // of rank 0
)

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	device := flag.String("d", "roce:127.0.0.1", "device, for all ranks")
	host := flag.String("host", "127.0.0.1", "the device's address")
	ranks := flag.Int("n", 4, "ranks; a divisor of 128")
	steps := flag.Int("steps", 500, "steps")
	rank := flag.Int("rank", -1, "this process's rank; without it all are started")
	flag.Parse()
	if *ranks < 1 || height%*ranks != 0 || *steps < 1 {
		return fmt.Errorf("%d ranks and %d steps: the ranks must divide %d, and there is at least one step", *ranks,
			*steps, height)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if *rank < 0 {
		return startAll(ctx, *ranks)
	}
	if err := solve(ctx, *device, *host, *rank, *ranks, *steps); err != nil {
		return fmt.Errorf("rank %d: %w", *rank, err)
	}
	return nil
}

// startAll starts a process for each rank. If one fails, all end.
func startAll(ctx context.Context, ranks int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for i := range ranks {
		all.Go(func() {
			c := exec.CommandContext(ctx, self, append([]string{"-rank", strconv.Itoa(i)}, os.Args[1:]...)...)
			c.Stdout, c.Stderr = os.Stdout, os.Stderr
			if err := c.Run(); err != nil {
				cancel(fmt.Errorf("rank %d: %w", i, err)) // the first cause counts
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// grid is two copies of some rows with a border row above and below: one is read, the other written.
type grid struct {
	mr   *verbs.MR
	rows int
}

// at returns where row r of copy c begins; row 0 is the border above.
func (g *grid) at(c, r int) int { return (c*(g.rows+2) + r) * row }

func (g *grid) row(c, r int) []byte { return g.mr.Bytes()[g.at(c, r):][:row] }

func get(b []byte, x int) float64    { return math.Float64frombits(binary.NativeEndian.Uint64(b[8*x:])) }
func put(b []byte, x int, v float64) { binary.NativeEndian.PutUint64(b[8*x:], math.Float64bits(v)) }

// step computes the rows of one copy from the other. first is the number of row 1 in the whole.
func (g *grid) step(from, first int) {
	for r := 1; r <= g.rows; r++ {
		above, here, below, next := g.row(from, r-1), g.row(from, r), g.row(from, r+1), g.row(1-from, r)
		for x := range width {
			if y := first + r - 1; x == 0 || x == width-1 || y == 0 || y == height-1 {
				put(next, x, get(here, x)) // the edge keeps its temperature
				continue
			}
			put(next, x, (get(above, x)+get(below, x)+get(here, x-1)+get(here, x+1))/4)
		}
	}
}

// heat makes the first row hot, in both copies.
func (g *grid) heat() {
	for c := range 2 {
		for x := range width {
			put(g.row(c, 1), x, 100)
		}
	}
}

// neighbor is a connection to a rank above or below, and its grid.
type neighbor struct {
	conn   *cm.Conn
	theirs verbs.Remote
}

func newNeighbor(conn *cm.Conn) (*neighbor, error) {
	n := &neighbor{conn: conn}
	return n, n.theirs.UnmarshalBinary(conn.Param().PrivateData[:verbs.RemoteSize])
}

// give writes row mine of copy c into row its of the neighbor's grid.
func (n *neighbor) give(ctx context.Context, g *grid, c, mine, its int) error {
	_, err := n.conn.Do(ctx, &verbs.SendWR{Op: verbs.OpWriteImm, SGL: []verbs.SGE{g.mr.SGE(g.at(c, mine), row)},
		Remote: n.theirs.At(uint64(g.at(c, its)))})
	return err
}

// take waits for a row of the neighbor.
func (n *neighbor) take(ctx context.Context) error {
	msg, err := n.conn.Recv(ctx)
	if err == nil {
		msg.Release()
	}
	return err
}

// solve is the work of one rank.
func solve(ctx context.Context, device, host string, rank, ranks, steps int) error {
	dev, err := ramjet.Open(device)
	if err != nil {
		return err
	}
	defer dev.Close()
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	g := &grid{rows: height / ranks}
	if g.mr, err = pd.AllocMR(2*(g.rows+2)*row, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead); err != nil {
		return err
	}
	first := rank * g.rows
	if rank == 0 {
		g.heat() // the plate's edge at the top
	}
	above, below, err := meet(ctx, dev, host, pd, g, rank, ranks)
	if err != nil {
		return err
	}

	start := time.Now()
	for s := range steps {
		from := s % 2
		if above != nil {
			err = above.give(ctx, g, from, 1, g.rows+1)
		}
		if below != nil && err == nil {
			err = below.give(ctx, g, from, g.rows, 0)
		}
		for _, n := range []*neighbor{above, below} {
			if n != nil && err == nil {
				err = n.take(ctx)
			}
		}
		if err != nil {
			return err
		}
		g.step(from, first)
	}
	took := time.Since(start)
	if err := compare(g, first, steps); err != nil {
		return err
	}
	if err := part(ctx, above, below); err != nil {
		return err
	}
	fmt.Printf("rank %d: %d steps, %v each; its rows are what one process computes\n", rank, steps,
		took/time.Duration(steps))
	return nil
}

// meet connects to the ranks above and below. Each rank listens for the one below it.
func meet(ctx context.Context, dev *verbs.Device, host string, pd *verbs.PD, g *grid, rank, ranks int) (above,
	below *neighbor, err error) {
	where, err := g.mr.Remote().MarshalBinary()
	if err != nil {
		return nil, nil, err
	}
	opts := []cm.Option{cm.WithPD(pd), cm.WithPrivateData(where)}
	var l *cm.Listener
	if rank < ranks-1 {
		if l, err = cm.Listen(ctx, dev, ":"+strconv.Itoa(port+rank), opts...); err != nil {
			return nil, nil, err
		}
		defer l.Close()
	}
	if rank > 0 {
		at := net.JoinHostPort(host, strconv.Itoa(port+rank-1))
		var conn *cm.Conn
		for { // that rank may not listen yet
			if conn, err = cm.Dial(ctx, dev, at, opts...); err == nil {
				break
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				return nil, nil, err
			}
		}
		if above, err = newNeighbor(conn); err != nil {
			return nil, nil, err
		}
	}
	if l != nil {
		conn, err := l.Accept(ctx)
		if err != nil {
			return nil, nil, err
		}
		if below, err = newNeighbor(conn); err != nil {
			return nil, nil, err
		}
	}
	return above, below, nil
}

// part ends the connections when both sides have finished.
func part(ctx context.Context, neighbors ...*neighbor) error {
	for _, n := range neighbors {
		if n == nil {
			continue
		}
		if err := n.conn.Send(ctx, nil); err != nil {
			return err
		}
		if err := n.take(ctx); err != nil {
			return err
		}
	}
	return nil
}

// compare computes the whole, and compares a rank's rows.
func compare(g *grid, first, steps int) error {
	all := make([][height][width]float64, 2)
	for c := range all {
		for x := range width {
			all[c][0][x] = 100
		}
	}
	for s := range steps {
		from, to := &all[s%2], &all[1-s%2]
		for y := 1; y < height-1; y++ {
			for x := 1; x < width-1; x++ {
				to[y][x] = (from[y-1][x] + from[y+1][x] + from[y][x-1] + from[y][x+1]) / 4
			}
		}
	}
	for y := range g.rows {
		for x := range width {
			if got, want := get(g.row(steps%2, y+1), x), all[steps%2][first+y][x]; got != want {
				return fmt.Errorf("row %d, column %d is %g, one process computes %g", first+y, x, got, want)
			}
		}
	}
	return nil
}
