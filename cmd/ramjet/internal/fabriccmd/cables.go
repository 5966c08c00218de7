// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
)

// fabricCables are the flags of `ramjet fabric` for cables to fabrics on other hosts.
type fabricCables struct {
	host   int
	listen string
	joins  []string
}

// maxFabricHost is how many hosts can make different nodes of one shape, less one.
const maxFabricHost = 63

func (f *fabricCables) add(c *cobra.Command) {
	c.Flags().IntVar(&f.host, "host", 0, fmt.Sprintf(
		"`number` of this host, 0 to %d: hosts whose fabrics are joined need different ones", maxFabricHost))
	c.Flags().StringVar(&f.listen, "listen", "",
		"let fabrics on other hosts join this one, at UDP `ADDRESS:PORT`; whoever reaches it may")
	c.Flags().StringArrayVar(&f.joins, "join", nil,
		"a `cable` to a fabric that listens: ADDRESS:PORT,NODE[PORT],NODE[PORT], the port here and the one there; may be repeated")
}

// fabricJoin is a cable that --join asks for.
type fabricJoin struct {
	address   string
	here, far infiniband.End
}

var endOfCable = regexp.MustCompile(`^(.+)\[([0-9]+)\]$`)

// parse returns the cables to join.
func (f *fabricCables) parse() (joins []fabricJoin, err error) {
	if f.host < 0 || f.host > maxFabricHost {
		return nil, cli.Usagef("--host %d: give 0 to %d", f.host, maxFabricHost)
	}
	for _, text := range f.joins {
		parts := strings.Split(text, ",")
		if len(parts) != 3 {
			return nil, cli.Usagef(
				"--join %q: give ADDRESS:PORT,NODE[PORT],NODE[PORT], such as 192.0.2.1:7470,leaf-1[9],leaf-1[10]", text)
		}
		j := fabricJoin{address: parts[0]}
		for i, end := range []*infiniband.End{&j.here, &j.far} {
			m := endOfCable.FindStringSubmatch(parts[1+i])
			if m == nil {
				return nil, cli.Usagef("--join %q: %q is not a port of a node: write it as leaf-1[9]", text, parts[1+i])
			}
			end.Node = m[1]
			if end.Port, err = strconv.Atoi(m[2]); err != nil {
				return nil, cli.Usagef("--join %q: port %s: %v", text, m[2], err)
			}
		}
		joins = append(joins, j)
	}
	return joins, nil
}

// connect listens and joins. Cables stay until ctx ends.
func (f *fabricCables) connect(ctx context.Context, fab *infiniband.Fabric, joins []fabricJoin, out io.Writer) error {
	if f.listen != "" {
		at, err := fab.Listen(ctx, f.listen)
		if err != nil {
			return usage.Of(err)
		}
		fmt.Fprintf(out, "Fabrics on other hosts join it at UDP %v.\n", at)
	}
	for _, j := range joins {
		if _, err := fab.Join(ctx, j.address, j.here, j.far); err != nil {
			return fmt.Errorf("--join %s,%v,%v: %w", j.address, j.here, j.far, err)
		}
		fmt.Fprintf(out, "%v has a cable to %v at %s.\n", j.here, j.far, j.address)
	}
	return nil
}
