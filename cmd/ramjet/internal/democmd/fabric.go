// SPDX-License-Identifier: Apache-2.0

package democmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/fabriccmd"
	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/app/demo"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
)

// demoTopology is the demo's own fabric. Packets between the hosts pass one of two cables. OpenSM is at the
// third adapter.
const demoTopology = `
Switch 4 "switch-1"
[1] "host-1"[1]
[2] "manager"[1]
[3] "switch-2"[3]
[4] "switch-2"[4]

Switch 4 "switch-2"
[1] "host-2"[1]

Hca 1 "host-1"
Hca 1 "host-2"
Hca 1 "manager"
`

// prepareFabric gives a demo devices on a fabric: of a name, or of the default one if that runs, or of one of
// its own, of which it may then pull a cable. end ends that one.
func prepareFabric(ctx context.Context, d *demo.Demo, name string) (end func(), err error) {
	if err := fabriccmd.CheckFabricName(name); err != nil {
		return nil, err
	}
	d.Spare, err = kinds.SpareAdapters(name, 2)
	switch {
	case err == nil:
		return func() {}, nil
	case name != "" || !errors.Is(err, infiniband.ErrNoFabric):
		return nil, usage.Errorf("the demo needs two devices: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	opensm, why := findOpenSM()
	f, err := startDemoFabric(ctx, opensm, why)
	if err != nil {
		cancel()
		return nil, err
	}
	name = fmt.Sprintf("demo-%d", os.Getpid())
	if err := f.fabric.Serve(ctx, name); err != nil {
		cancel()
		f.end()
		return nil, err
	}
	d.Spare, d.Fabric = []string{"host-1?fabric=" + name, "host-2?fabric=" + name}, f
	return func() {
		cancel()
		f.end()
	}, nil
}

// demoFabric is the demo's own fabric.
type demoFabric struct {
	fabric  *infiniband.Fabric
	manager string
	end     func()
}

// upTime is how long a subnet manager may take.
const upTime = 20 * time.Second

// startDemoFabric starts a fabric, managed by OpenSM if that works, unless why says that it cannot be used, and waits
// until the fabric is up.
func startDemoFabric(ctx context.Context, opensm string, why error) (*demoFabric, error) {
	if why == nil {
		var f *demoFabric
		if f, why = startOpenSM(ctx, opensm); why == nil {
			return f, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	fab, err := infiniband.NewFabric("demo", demoTopology, nil)
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, upTime)
	defer cancel()
	if err := fab.AwaitActive(wait); err != nil {
		fab.Close()
		return nil, err
	}
	return &demoFabric{fab, fmt.Sprintf("Ramjet's own (%v)", why), fab.Close}, nil
}

// findOpenSM returns the path of OpenSM, or why it cannot be used.
func findOpenSM() (string, error) {
	program, err := exec.LookPath("opensm")
	if err != nil {
		if _, err = os.Stat("/usr/sbin/opensm"); err != nil { // not in users' paths
			return "", errors.New("opensm is not installed")
		}
		program = "/usr/sbin/opensm"
	}
	if fabriccmd.UmadLibrary() == "" {
		return "", errors.New("libumad2sim.so, through which opensm would reach the fabric, is not installed")
	}
	return program, nil
}

// startOpenSM starts a fabric that OpenSM manages.
func startOpenSM(ctx context.Context, program string) (*demoFabric, error) {
	fab, err := infiniband.NewFabric("demo", demoTopology, &infiniband.FabricOptions{NoManager: true})
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ramjet-demo")
	if err != nil {
		fab.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	end := func() {
		cancel()
		fab.Close()
		os.RemoveAll(dir)
	}
	socket := fmt.Sprintf("ramjet-demo-%d", os.Getpid())
	if err := fab.ServeIBSim(ctx, socket); err != nil {
		end()
		return nil, err
	}
	sm := exec.CommandContext(ctx, program, "-f", "opensm.log")
	sm.Dir = dir
	sm.Env = append(os.Environ(), "LD_PRELOAD="+fabriccmd.UmadLibrary(), "IBSIM_SOCKNAME="+socket, "SIM_HOST=manager",
		"OSM_TMP_DIR="+dir, "OSM_CACHE_DIR="+dir)
	if err := sm.Start(); err != nil {
		end()
		return nil, err
	}
	ended := make(chan struct{})
	wait, stop := context.WithTimeout(ctx, upTime)
	defer stop()
	go func() {
		sm.Wait()
		close(ended)
		stop()
	}()
	f := &demoFabric{fab, "OpenSM (" + program + ")", func() {
		cancel()
		<-ended
		end()
	}}
	if err := fab.AwaitActive(wait); err != nil {
		f.end()
		return nil, fmt.Errorf("%s did not bring the fabric up", program)
	}
	return f, nil
}

func (f *demoFabric) Manager() string { return f.manager }

// adapterEnd returns the port of a device's adapter.
func adapterEnd(device string) (infiniband.End, error) {
	n, err := kinds.Parse(device)
	if err != nil {
		return infiniband.End{}, err
	}
	adapter, _ := n.Split()
	return infiniband.End{Node: adapter, Port: 1}, nil
}

// hops returns the route between the adapters of two devices.
func (f *demoFabric) hops(from, to string) ([]infiniband.End, error) {
	a, err := adapterEnd(from)
	if err != nil {
		return nil, err
	}
	b, err := adapterEnd(to)
	if err != nil {
		return nil, err
	}
	hops, arrives, err := f.fabric.Route(a, b)
	if err == nil && !arrives {
		err = fmt.Errorf("the fabric has no route from %v to %v", a, b)
	}
	return hops, err
}

// Route returns the ports by which packets leave nodes.
func (f *demoFabric) Route(from, to string) (names []string, err error) {
	hops, err := f.hops(from, to)
	for _, h := range hops {
		names = append(names, h.String())
	}
	return names, err
}

// Pull pulls the cable between the switches that the route uses.
func (f *demoFabric) Pull(from, to string) (string, error) {
	hops, err := f.hops(from, to)
	if err != nil {
		return "", err
	}
	if len(hops) != 3 {
		return "", fmt.Errorf("the route has %d hops, and 3 were expected", len(hops))
	}
	return "the cable at " + hops[1].String(), f.fabric.Pull(hops[1])
}

// Carried returns how many packets ports have sent.
func (f *demoFabric) Carried() map[string]uint64 {
	sent := make(map[string]uint64)
	for _, n := range f.fabric.View().Nodes {
		for _, p := range n.Ports {
			sent[infiniband.End{Node: n.Name, Port: p.Number}.String()] = p.Counters.XmitPkts
		}
	}
	return sent
}
