// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
)

// fabricManager are the flags of `ramjet fabric` for the built-in subnet manager.
type fabricManager struct {
	flags      *cobra.Command
	priority   uint8
	routing    string
	lmc        uint8
	partitions string
	mkey       string
	protect    uint8
	lease      time.Duration
}

// managerFlags are their names: with --no-manager there is no manager for them.
var managerFlags = []string{"priority", "routing", "lmc", "partitions", "mkey", "mkey-protect", "mkey-lease"}

func (f *fabricManager) add(c *cobra.Command) {
	f.flags = c
	c.Flags().Uint8Var(&f.priority, "priority", 0,
		"the built-in manager's `priority`, 0 to 15: one with a higher priority takes over")
	c.Flags().StringVar(&f.routing, "routing", "auto",
		"how the built-in manager finds `routes`: min-hop, up-down, or auto: min-hop if that has no credit loop")
	c.Flags().Uint8Var(&f.lmc, "lmc", 0, "give adapters' ports 2^`LMC` LIDs, 0 to 7: there may be as many ways to them")
	c.Flags().StringVar(&f.partitions, "partitions", "",
		"`file` with partitions, in the format of OpenSM's partitions.conf; names of nodes stand for their ports")
	c.Flags().StringVar(&f.mkey, "mkey", "",
		"M_`key` of all ports, such as 0x1234: whoever changes the subnet has to know it")
	c.Flags().Uint8Var(&f.protect, "mkey-protect", 1, "what is refused without the M_Key, 0 to 3: `level`")
	c.Flags().Var((*cli.WaitTime)(&f.lease), "mkey-lease",
		"`time` for which ports stay protected when their manager is gone, such as 30s (default: for ever)")
}

// options returns the options that the flags give.
func (f *fabricManager) options(noManager bool) (o infiniband.ManagerOptions, err error) {
	for _, name := range managerFlags {
		if noManager && f.flags.Flags().Changed(name) {
			return o, cli.Usagef("--%s is the built-in manager's, and --no-manager leaves it out: give one of them",
				name)
		}
	}
	if f.priority > 15 {
		return o, cli.Usagef("--priority %d: give 0 to 15", f.priority)
	}
	if f.lmc > 7 {
		return o, cli.Usagef("--lmc %d: give 0 to 7", f.lmc)
	}
	o = infiniband.ManagerOptions{Priority: f.priority, Routing: f.routing, LMC: f.lmc}
	if f.mkey != "" {
		if o.MKey, err = strconv.ParseUint(f.mkey, 0, 64); err != nil || o.MKey == 0 {
			return o, cli.Usagef("--mkey %q: give a number of up to 64 bits, such as 0x1234, and not 0", f.mkey)
		}
		if f.protect > 3 {
			return o, cli.Usagef("--mkey-protect %d: give 0 to 3", f.protect)
		}
		if f.lease%time.Second != 0 || f.lease > math.MaxUint16*time.Second {
			return o, cli.Usagef("--mkey-lease %v: give whole seconds, 1s to %ds", f.lease, math.MaxUint16)
		}
		o.Protect, o.Lease = f.protect, uint16(f.lease/time.Second)
	} else if f.flags.Flags().Changed("mkey-protect") || f.flags.Flags().Changed("mkey-lease") {
		return o, cli.Usagef("--mkey-protect and --mkey-lease belong to --mkey: give that, too")
	}
	switch f.routing {
	case "auto", "min-hop", "up-down":
	default:
		return o, cli.Usagef("--routing %q: there are auto, min-hop and up-down", f.routing)
	}
	if f.partitions != "" {
		text, err := os.ReadFile(f.partitions)
		if err != nil {
			return o, usage.Of(fmt.Errorf("--partitions: %w", err))
		}
		o.Partitions, o.PartitionFile = string(text), f.partitions
		if len(text) == 0 {
			return o, cli.Usagef("--partitions %s: the file is empty: leave the option out for the default partition alone", f.partitions)
		}
	}
	return o, nil
}
