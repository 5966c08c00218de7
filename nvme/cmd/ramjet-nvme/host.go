// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/nvme"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
)

func discoverCommand() *cobra.Command {
	var h host
	c := &cobra.Command{
		Use:     "discover HOST[:PORT]",
		Short:   "List the subsystems of a discovery service",
		Long:    "Discover asks the discovery service at an address, by default at port 8009, which subsystems this host may use.",
		Example: "  ramjet-nvme discover -d roce:192.0.2.9 192.0.2.7:4420",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := h.check(wire.DiscoveryNQN); err != nil {
				return err
			}
			dev, err := openDevice(h.device)
			if err != nil {
				return err
			}
			defer dev.Close()
			list, err := nvme.Discover(c.Context(), dev, withPort(args[0], discoveryPort), h.opt)
			if err != nil {
				return explain(err)
			}
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "ADDRESS\tSUBSYSTEM")
			for i := range list {
				name := list[i].SubNQN
				if list[i].Type == wire.EntryReferral {
					name = "(another discovery service)"
				}
				fmt.Fprintf(w, "%s\t%s\n", nvme.EntryAddress(&list[i]), name)
			}
			return w.Flush()
		},
	}
	h.flags(c)
	return c
}

func listCommand() *cobra.Command {
	var h host
	c := &cobra.Command{
		Use:     "list HOST[:PORT] NQN",
		Short:   "List the namespaces of a subsystem",
		Example: "  ramjet-nvme list -d roce:192.0.2.9 192.0.2.7 " + defaultNQN,
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			ctrl, done, err := h.dial(c.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			defer done()
			return list(c.Context(), c.OutOrStdout(), ctrl)
		},
	}
	h.flags(c)
	h.secretFlags(c)
	return c
}

func list(ctx context.Context, out io.Writer, c *nvme.Controller) error {
	ids, err := c.Namespaces(ctx)
	if err != nil {
		return err
	}
	id := c.Identity()
	fmt.Fprintf(out, "%s, serial %s, controller %d\n", id.Model, id.Serial, id.ID)
	groups, err := c.Access(ctx)
	if err != nil {
		return err
	}
	paths := map[uint32]string{}
	for _, g := range groups {
		for _, id := range g.Namespaces {
			paths[id] = g.State.String()
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAMESPACE\tSIZE\tBLOCK\tACCESS\tPATH")
	for _, id := range ids {
		d, err := c.Open(ctx, id)
		if err != nil {
			return err
		}
		access := "read, write"
		if d.ReadOnly() {
			access = "read"
		}
		fmt.Fprintf(w, "%d\t%s\t%d\t%s\t%s\n", id, humanize.IBytes(uint64(d.Size())), d.BlockSize(), access,
			cmp.Or(paths[id], "-"))
	}
	return w.Flush()
}

// piece is how much read and write carry at once, in bytes.
const piece = 1 << 20

func readCommand() *cobra.Command {
	var h host
	var offset, length, file string
	c := &cobra.Command{
		Use:     "read HOST[:PORT] NQN",
		Short:   "Copy from a namespace to a file, or to the standard output",
		Example: "  ramjet-nvme read -d roce:192.0.2.9 192.0.2.7 " + defaultNQN + " -o copy.img",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) (err error) {
			from, err := parseBytes("--offset", offset)
			if err != nil {
				return err
			}
			n := int64(-1)
			if length != "" {
				if n, err = parseBytes("--length", length); err != nil {
					return err
				}
			}
			d, done, err := h.open(c.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			defer done()
			switch rest := d.Size() - from; {
			case rest < 0:
				return usagef("--offset %s: the namespace ends at %d", offset, d.Size())
			case n > rest:
				return usagef("--length %s: the namespace ends %d bytes from there", length, rest)
			case n < 0:
				n = rest
			}
			out := c.OutOrStdout()
			if file != "" {
				f, err := os.Create(file)
				if err != nil {
					return err
				}
				defer func() { err = firstErr(err, f.Close()) }()
				out = f
			}
			b := make([]byte, piece)
			for n > 0 {
				part := b[:min(n, piece)]
				if k, err := d.Read(c.Context(), part, from); err != nil {
					if err == io.EOF {
						return fmt.Errorf("the namespace ends at %d", from+int64(k))
					}
					return err
				}
				if _, err := out.Write(part); err != nil {
					return err
				}
				from, n = from+int64(len(part)), n-int64(len(part))
			}
			return nil
		},
	}
	h.diskFlags(c)
	c.Flags().StringVar(&offset, "offset", "0", "where to begin, in bytes")
	c.Flags().StringVar(&length, "length", "", "how many bytes; by default all to the end")
	c.Flags().StringVarP(&file, "output", "o", "", "the file to write; by default the standard output")
	return c
}

// firstErr returns the first error.
func firstErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func writeCommand() *cobra.Command {
	var h host
	var offset string
	c := &cobra.Command{
		Use:     "write HOST[:PORT] NQN FILE",
		Short:   "Copy a file to a namespace",
		Long:    "Write copies a file to a namespace, and flushes it. A last block that the file does not fill is filled with zeros.\nThe file - is the standard input.",
		Example: "  ramjet-nvme write -d roce:192.0.2.9 192.0.2.7 " + defaultNQN + " disk.img",
		Args:    cobra.ExactArgs(3),
		RunE: func(c *cobra.Command, args []string) error {
			to, err := parseBytes("--offset", offset)
			if err != nil {
				return err
			}
			in, size := c.InOrStdin(), int64(0)
			if args[2] != "-" {
				f, err := os.Open(args[2])
				if err != nil {
					return err
				}
				defer f.Close()
				info, err := f.Stat()
				if err != nil || info.IsDir() {
					return cmp.Or(err, fmt.Errorf("%s is a directory, and write copies a file", args[2]))
				}
				in, size = f, info.Size()
			}
			d, done, err := h.open(c.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			defer done()
			switch {
			case to%int64(d.BlockSize()) != 0:
				return usagef("--offset %s: begin at a whole block of %d bytes", offset, d.BlockSize())
			case to > d.Size() || size > d.Size()-to:
				return usagef("--offset %s: the namespace ends at %d, and the file has %d bytes", offset, d.Size(), size)
			}
			return explainCommand(copyTo(c.Context(), d, in, to))
		},
	}
	h.diskFlags(c)
	c.Flags().StringVar(&offset, "offset", "0", "where to begin, in bytes")
	return c
}

// flushEvery is after how many bytes copyTo flushes: as much is written again if the target's cache was lost.
const flushEvery = 64 << 20

// copyTo writes the data that it reads, and flushes it.
func copyTo(ctx context.Context, d *nvme.Disk, in io.Reader, to int64) error {
	b := make([]byte, piece)
	durable := to
	for {
		n, err := io.ReadFull(in, b)
		if n > 0 {
			whole := (n + d.BlockSize() - 1) / d.BlockSize() * d.BlockSize()
			clear(b[n:whole])
			if _, err := d.Write(ctx, b[:whole], to); err != nil {
				return err
			}
			to += int64(n)
		}
		end := err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !end {
			return err
		}
		if !end && to-durable < flushEvery {
			continue
		}
		err = d.Flush(ctx)
		file, ok := in.(io.Seeker)
		switch {
		case errors.Is(err, nvme.ErrWriteCacheLost) && ok:
			if _, e := file.Seek(durable-to, io.SeekCurrent); e != nil { // a pipe, which is not written again
				return err
			}
			to = durable
		case err != nil:
			return err
		case end:
			return nil
		}
		durable = to
	}
}

func benchCommand() *cobra.Command {
	var h host
	var o benchOptions
	c := &cobra.Command{
		Use:   "bench HOST[:PORT] NQN",
		Short: "Measure reads or writes of a namespace",
		Long: "Bench reads blocks at random offsets, so many in flight, and prints operations a second, the rate and the latency.\n" +
			"With --write it writes, and destroys what the namespace has.",
		Example: "  ramjet-nvme bench -d roce:192.0.2.9 192.0.2.7 " + defaultNQN + " --size 4KiB --depth 32",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			size, err := parseBytes("--size", o.sizeText)
			switch {
			case err != nil:
				return err
			case size < 1 || size > 1<<24:
				return usagef("--size %s: an operation is of 1 byte to 16 MiB", o.sizeText)
			case o.depth < 1 || o.depth > 1000:
				return usagef("--depth %d: take from 1 to 1000", o.depth)
			case o.period <= 0:
				return usagef("--time %v: take more than 0", o.period)
			}
			o.size = int(size)
			h.opt.QueueDepth = max(o.depth+1, 2)
			d, done, err := h.open(c.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			defer done()
			return bench(c.Context(), c.OutOrStdout(), d, &o)
		},
	}
	h.diskFlags(c)
	f := c.Flags()
	f.StringVar(&o.sizeText, "size", "4KiB", "bytes of an operation")
	f.IntVar(&o.depth, "depth", 1, "operations in flight")
	f.DurationVar(&o.period, "time", time.Second, "how long to measure")
	f.BoolVar(&o.write, "write", false, "write instead of reading: destroys what the namespace has")
	return c
}

type benchOptions struct {
	sizeText string
	size     int
	depth    int
	period   time.Duration
	write    bool
}

func bench(ctx context.Context, out io.Writer, d *nvme.Disk, o *benchOptions) error {
	places := d.Size() / int64(o.size)
	switch {
	case places == 0:
		return usagef("--size %s: the namespace has %d bytes", o.sizeText, d.Size())
	case o.size%d.BlockSize() != 0:
		return usagef("--size %s: take whole blocks of %d bytes", o.sizeText, d.BlockSize())
	}
	a, err := d.NewAsync(o.depth)
	if err != nil {
		return err
	}
	defer a.Close()
	blocks, begun := make([][]byte, o.depth), make([]time.Time, o.depth)
	begin := func(i int, now time.Time) error {
		begun[i] = now
		f := a.Read
		if o.write {
			f = a.Write
		}
		return f(blocks[i], rand.Int64N(places)*int64(o.size), uint64(i))
	}
	for i := range blocks {
		blocks[i] = make([]byte, o.size)
		if err := begin(i, time.Now()); err != nil {
			return err
		}
	}
	var times []time.Duration
	results, start := make([]nvme.Result, o.depth), time.Now()
	for len(times) == 0 || time.Since(start) < o.period {
		n, err := a.Wait(ctx, results)
		if err != nil {
			return err
		}
		now := time.Now()
		for _, r := range results[:n] {
			if r.Err != nil {
				return explainCommand(r.Err)
			}
			times = append(times, now.Sub(begun[r.ID]))
			if err := begin(int(r.ID), now); err != nil {
				return err
			}
		}
	}
	took := time.Since(start)
	list := slices.Sorted(slices.Values(times))
	n := len(list)
	fmt.Fprintf(out, "%d operations of %s, %d in flight: %.0f/s, %s/s, median %v, 99 %% below %v\n", n,
		humanize.IBytes(uint64(o.size)), o.depth,
		float64(n)/took.Seconds(), humanize.IBytes(uint64(float64(n)*float64(o.size)/took.Seconds())),
		list[n/2].Round(100*time.Nanosecond),
		list[n*99/100].Round(100*time.Nanosecond))
	return nil
}
