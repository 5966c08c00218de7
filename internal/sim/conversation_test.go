// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/verbs"
)

var (
	seeds = flag.Uint64("seeds", 40, "how many seeds of each transport to try")
	seed  = flag.Uint64("seed", 0, "the first seed to try")
)

// converse runs the conversation that follows from a seed.
func converse(seed uint64, typ verbs.QPType, w *trace.Writer) (*Conversation, error) {
	n := New(seed)
	n.Trace = w
	s := RandomSetup(n, typ)
	c, err := NewConversation(n, s)
	if err != nil {
		return nil, err
	}
	if err := c.Run(ibta.Time(300 * time.Second)); err != nil {
		return c, err
	}
	return c, c.Close()
}

// TestConversations runs random work over random networks and compares it with the model.
// A seed that fails is run again with its packets recorded.
func TestConversations(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD, verbs.XRCIni} {
		t.Run(typ.String(), func(t *testing.T) {
			t.Parallel()
			for i := range *seeds {
				c, err := converse(*seed+i, typ, nil)
				if err != nil {
					t.Errorf("seed %d: %v\n%s\n%+v", *seed+i, err, keep(*seed+i, typ), c.Setup)
					return
				}
			}
		})
	}
}

// keep runs a seed again with its packets recorded, and says where.
func keep(seed uint64, typ verbs.QPType) string {
	name := filepath.Join(os.TempDir(), fmt.Sprintf("ramjet-sim-%v-%d.pcapng", typ, seed))
	f, err := os.Create(name)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	w, err := trace.NewWriter(f, "sim")
	if err != nil {
		return err.Error()
	}
	converse(seed, typ, w)
	if err := w.Close(); err != nil {
		return err.Error()
	}
	return "its packets are in " + name
}
