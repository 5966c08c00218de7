// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/nvme"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
)

// defaultNQN is the subsystem of serve.
const defaultNQN = "nqn.2026-01.io.ramjet:disks"

type serveOptions struct {
	devices   []string
	address   string
	access    []string
	nqn       string
	hosts     []string
	anyHost   bool
	writable  bool
	block     int
	list      string
	referrals []string
	secrets   targetSecrets
}

func serveCommand() *cobra.Command {
	var o serveOptions
	c := &cobra.Command{
		Use:   "serve [FILE...]",
		Short: "Serve files, block devices and memory to hosts",
		Long: "Serve makes a subsystem whose namespaces are files or block devices, numbered from 1 on in the order in which they are\n" +
			"named; memory:64MiB is a disk in memory. They are read-only unless --writable is given. A host has to be named by\n" +
			"--host or --dhchap-secret, or --any-host lets in all that reach the address. The discovery service is at the same\n" +
			"address.\n\n" +
			"A list, of --list, has lines of a number and a file, such as 7 disk.img. It is read again at SIGHUP: what is new is\n" +
			"added, what is gone is removed, and hosts that are connected get a notice.",
		Example: "  ramjet-nvme serve -d roce:192.0.2.7 --any-host disk.img\n" +
			"  ramjet-nvme serve -d roce:192.0.2.7 --host nqn.2014-08.org.nvmexpress:uuid:… --writable disk.img memory:64MiB",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 && o.list == "" {
				return usagef("no disk: name files, block devices or memory:SIZE, or a list of them by --list")
			}
			return serve(c.Context(), c.OutOrStdout(), &o, args)
		},
	}
	f := c.Flags()
	f.StringArrayVarP(&o.devices, "device", "d", nil,
		"the device, such as roce:192.0.2.7; may be given again: the subsystem is at each")
	if err := c.MarkFlagRequired("device"); err != nil {
		panic(err)
	}
	f.StringArrayVar(&o.access, "ana-state", nil,
		"DEVICE=STATE: how hosts reach the namespaces there: optimized, non-optimized or inaccessible; may be given again")
	f.StringVarP(&o.address, "listen", "l", ":"+defaultPort, "the address and port to listen at")
	f.StringVar(&o.nqn, "nqn", defaultNQN, "the subsystem's NQN")
	f.StringArrayVar(&o.hosts, "host", nil, "the NQN of a host that may connect; may be given again")
	f.BoolVar(&o.anyHost, "any-host", false, "any host may connect")
	f.BoolVar(&o.writable, "writable", false, "hosts may write")
	f.StringVar(&o.list, "list", "", "a file with further namespaces, read again at SIGHUP")
	f.StringArrayVar(&o.referrals, "refer", nil,
		"the address and port of another discovery service, which hosts are told of; may be given again")
	o.secrets.flags(c)
	f.IntVar(&o.block, "block-size", 512, "bytes of a block, a power of 2 from 512 to 65536")
	return c
}

func serve(ctx context.Context, out io.Writer, o *serveOptions, files []string) error {
	secrets, err := o.secrets.parse()
	if err != nil {
		return usageError{err}
	}
	access, err := o.parseAccess()
	if err != nil {
		return usageError{err}
	}
	if named := len(o.hosts) > 0 || len(secrets) > 0; named == o.anyHost {
		return usagef("say who may connect: hosts by --host or --dhchap-secret, or all of them by --any-host")
	}
	if o.block < 512 || o.block > maxBlock || o.block&(o.block-1) != 0 {
		return usagef("--block-size %d: take a power of 2 from 512 to %d", o.block, maxBlock)
	}
	for _, name := range files {
		if _, _, err := parseMemory(name, o.block); err != nil {
			return usageError{err}
		}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	t := nvme.NewTarget(nvme.TargetOptions{Log: log})
	defer t.Close()
	sub, err := t.AddSubsystem(nvme.SubsystemOptions{NQN: o.nqn, Hosts: o.hosts, AnyHost: o.anyHost,
		Secrets: secrets})
	if err != nil {
		return usageError{err}
	}
	for _, text := range o.referrals {
		at, err := netip.ParseAddrPort(text)
		if err != nil {
			return usagef("--refer %s: write an address and port, such as 192.0.2.9:8009", text)
		}
		if err := t.AddReferral(at); err != nil {
			return usageError{err}
		}
	}
	d := &disks{sub: sub, writable: o.writable, block: o.block, out: out, open: map[uint32]*openFile{},
		fixed: len(files)}
	defer d.close()
	for i, name := range files {
		if err := d.add(uint32(i+1), name); err != nil {
			return err
		}
	}
	again := make(chan os.Signal, 1)
	if o.list != "" {
		signal.Notify(again, syscall.SIGHUP)
		defer signal.Stop(again)
		if err := d.follow(o.list); err != nil {
			return err
		}
	}
	for _, device := range o.devices {
		dev, err := openDevice(device)
		if err != nil {
			return err
		}
		defer dev.Close()
		p, err := t.Listen(ctx, dev, o.address)
		if err != nil {
			return usageError{err}
		}
		defer p.Close()
		if state, ok := access[device]; ok {
			if err := p.SetAccess(1, state); err != nil {
				return err
			}
		}
		fmt.Fprintf(out, "serving %s at %v\n", o.nqn, p.Addr())
	}
	for {
		select {
		case <-again:
			if err := d.follow(o.list); err != nil {
				log.Error("the list of namespaces", "error", err)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

var accessNames = map[string]wire.ANAState{"optimized": wire.ANAOptimized, "non-optimized": wire.ANANonOptimized,
	"inaccessible": wire.ANAInaccessible}

// parseAccess returns the states that --ana-state names, by device.
func (o *serveOptions) parseAccess() (map[string]wire.ANAState, error) {
	list := map[string]wire.ANAState{}
	for _, text := range o.access {
		device, name, _ := strings.Cut(text, "=")
		state, ok := accessNames[name]
		if !ok || !slices.Contains(o.devices, device) {
			return nil,
				fmt.Errorf("--ana-state %s: write DEVICE=STATE, a device of -d, and optimized, non-optimized or "+
					"inaccessible", text)
		}
		list[device] = state
	}
	return list, nil
}

const (
	maxMemory = 64 << 30 // bytes of a disk in memory
	maxBlock  = 64 << 10 // bytes of a block
)

// parseMemory returns the size of a disk in memory, memory:SIZE, in whole blocks. Another name is not one.
func parseMemory(name string, block int) (size int64, ok bool, err error) {
	text, ok := strings.CutPrefix(name, "memory:")
	if !ok {
		return 0, false, nil
	}
	n, err := humanize.ParseBytes(text)
	switch {
	case err != nil:
		return 0, true, fmt.Errorf("%s: write memory: and a number of bytes, such as memory:64MiB", name)
	case n > maxMemory:
		return 0, true, fmt.Errorf("%s: a disk in memory has at most %s", name, humanize.IBytes(maxMemory))
	case n == 0 || n%uint64(block) != 0:
		return 0, true, fmt.Errorf("%s: take whole blocks of %d bytes, and at least one", name, block)
	}
	return int64(n), true, nil
}

// openDisk opens a file, a block device, or memory.
func openDisk(name string, writable bool, block int) (n nvme.Namespace, closer func() error, err error) {
	n = nvme.Namespace{Writable: writable, BlockSize: block}
	if size, ok, err := parseMemory(name, block); ok {
		if err != nil {
			return n, nil, err
		}
		n.Size, n.Immediate = size, true
		if writable {
			n.Disk = nvme.NewMemory(int(size))
		} else {
			n.Disk = make(nvme.Image, size)
		}
		return n, func() error { return nil }, nil
	}
	flag := os.O_RDONLY
	if writable {
		flag = os.O_RDWR
	}
	f, err := os.OpenFile(name, flag, 0)
	if err != nil {
		return n, nil, err
	}
	size, err := f.Seek(0, io.SeekEnd) // of a block device too
	if info, e := f.Stat(); err == nil && e == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory: name a file, a block device or memory:SIZE", name)
	}
	if err == nil && size == 0 {
		err = fmt.Errorf("%s is empty: give it the size of the disk, such as by truncate --size 64M", name)
	}
	if err != nil {
		f.Close()
		return n, nil, err
	}
	n.Disk, n.Size = nvme.NewFile(f), size
	return n, f.Close, nil
}
