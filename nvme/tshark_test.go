// SPDX-License-Identifier: Apache-2.0

package nvme_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/nvme"
	"github.com/ramjet-rdma/ramjet/rdmatest"
	"github.com/ramjet-rdma/ramjet/trace"
)

// Wireshark's dissector of NVMe over RDMA reads the commands of a recorded session, each with its response, and finds
// no malformed packet.
func TestTshark(t *testing.T) {
	if _, err := exec.LookPath("tshark"); err != nil {
		t.Skip("tshark is not installed (Debian: apt-get install tshark)")
	}
	name := filepath.Join(t.TempDir(), "nvme.pcapng")
	f, err := os.Create(name)
	ok(t, err)
	defer f.Close()
	w, err := trace.NewWriter(f, "roce")
	ok(t, err)
	targets, hosts := rdmatest.PairOf(t, "roce")
	address := hosts.Name() // for a device that records
	ok(t, hosts.Close())
	dev, err := ramjet.Open(address, ramjet.WithTrace(w))
	ok(t, err)
	defer dev.Close()
	target := nvme.NewTarget(nvme.TargetOptions{})
	sub, err := target.AddSubsystem(nvme.SubsystemOptions{NQN: diskNQN, AnyHost: true})
	ok(t, err)
	ok(t, sub.AddNamespace(disk(1, 1<<20)))
	port, err := target.Listen(t.Context(), targets, ":0")
	ok(t, err)
	defer target.Close()
	c, err := nvme.Dial(within(t), dev, port.Addr().String(), diskNQN, nvme.HostOptions{NQN: hostNQN})
	ok(t, err)
	d, err := c.Open(within(t), 1)
	ok(t, err)
	for _, n := range []int{512, 2048, 64 << 10} {
		_, err = d.WriteAt(make([]byte, n), 0)
		ok(t, err)
		_, err = d.ReadAt(make([]byte, n), 0)
		ok(t, err)
	}
	ok(t, d.Sync())
	ok(t, d.WriteZeroes(within(t), 0, 4096))
	ok(t, d.Deallocate(within(t), 0, 4096))
	ok(t, d.Compare(within(t), make([]byte, 2048), 0))
	ok(t, c.Close())
	ok(t, dev.Close())
	ok(t, w.Close())
	shark := func(args ...string) []string {
		t.Helper()
		out, err := exec.Command("tshark", append([]string{"-r", name, "-o",
			fmt.Sprintf("nvme-rdma.subsystem_ports:%d", port.Addr().Port())}, args...)...).Output()
		ok(t, err)
		return strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	if bad := shark("-Y", "_ws.malformed"); bad[0] != "" {
		t.Error("malformed:", strings.Join(bad, "\n"))
	}
	// A busy machine has packets sent again: each counts once.
	packets := shark("-T", "fields", "-e", "infiniband.bth.destqp", "-e", "infiniband.bth.psn", "-e", "_ws.col.Info",
		"-Y", "nvme || nvme-rdma")
	slices.Sort(packets)
	info := strings.Join(slices.Compact(packets), "\n") + "\n"
	info = strings.ReplaceAll(info, "Write Zeroes", "Write Zero") // as versions differ
	for command, n := range map[string]int{"NVMeOF Connect": 2, "NVMeOF Property Get Controller Capabilities": 1,
		"NVMe Identify Controller": 1, "NVMe Identify Namespace": 1, "NVMe Write": 3, "NVMe Read": 3, "NVMe Flush": 1,
		"NVMe Write Zero": 1, "NVMe Dataset Management": 1, "NVMe Compare": 1} {
		layer, name, _ := strings.Cut(command, " ")
		for _, what := range []string{command, layer + " CQE for " + name} {
			if got := strings.Count(info, "| "+what+"\n"); got != n {
				t.Errorf("%d packets of %q, not %d:\n%s", got, what, n, info)
			}
		}
	}
}
