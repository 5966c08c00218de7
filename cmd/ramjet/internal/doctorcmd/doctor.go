// SPDX-License-Identifier: Apache-2.0

// Package doctorcmd is `ramjet doctor`: problems that keep RDMA from working here, and to a peer.
package doctorcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/explaincmd"
	"github.com/ramjet-rdma/ramjet/internal/app/doctor"
	"github.com/ramjet-rdma/ramjet/internal/app/explain"
	"github.com/ramjet-rdma/ramjet/internal/device/cdevices"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/internal/system/rdmasys"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// New returns `ramjet doctor`.
func New() *cobra.Command {
	var asJSON bool
	var log string
	c := &cobra.Command{
		Use:   "doctor [HOST | DEVICE]",
		Short: "Diagnose RDMA on this machine, and the path to a peer",
		Long: "Doctor checks RDMA devices, with their modules, files, ports, GID tables and limits, what Ramjet's own devices\n" +
			"need from the system, what the environment names, and, if a peer is given, the path to it: route, devices, the GID\n" +
			"to use, the largest packets that get through, and whether the peer replies over RoCEv2. For these it sends the\n" +
			"peer a few UDP datagrams; otherwise it only reads. In a container it says which libraries are injected, whether\n" +
			"they can be loaded, whether the fabrics answer that devices join, and which limits there are. It says what is\n" +
			"wrong, why that matters, and which commands fix it. It changes nothing.\n\n" +
			"With --log it also explains the line of a log that matters, as ramjet explain does, and marks what is wrong here and\n" +
			"can be its cause. With a device, such as mlx5_0, eth0 or roce:192.0.2.7, the report is of that one only.\n\n" +
			"The exit status is 0 if nothing is wrong (notes do not count), 1 if something has to be fixed, and 2 if the\n" +
			"command line is wrong.",
		Example: "  ramjet doctor\n  ramjet doctor 192.0.2.9\n  ramjet doctor roce:192.0.2.7\n  ramjet doctor --log job.log\n  ramjet doctor --json",
		Args:    cli.Arguments(0, 1),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write facts and findings as JSON")
	c.Flags().StringVar(&log, "log", "",
		"explain the log in `file`, or - for standard input, and what is wrong here that fits it")
	return cli.Leaf(c, func(c *cobra.Command, args []string) error {
		f := &doctor.Facts{}
		if err := readLog(f, log, c.InOrStdin()); err != nil {
			return err
		}
		var peer netip.Addr
		f.System = rdmasys.Host().Read()
		if len(args) == 1 && !askedDevice(f, args[0]) {
			var err error
			host, _ := cli.HostPort(args[0])
			if peer, err = cli.PeerAddr(c.Context(), host); err != nil && !strings.Contains(host, ".") &&
				c.Context().Err() == nil {
				return cli.Usagef("%w, or a device that `ramjet devices` lists", err)
			} else if err != nil {
				return err
			}
		}
		if f.Asked == nil {
			f.Soft = softKinds()
		}
		f.Named = namedDevice()
		f.Listed = listedDevices()
		if f.System.Injected != nil && f.Asked == nil {
			f.CDevices = devicesOfC(c.Context(), f.System)
		}
		if peer.IsValid() {
			f.Peer = examinePeer(c.Context(), peer)
		}
		if err := c.Context().Err(); err != nil {
			return err
		}
		return writeDiagnosis(c.OutOrStdout(), f, doctor.Diagnose(f), asJSON)
	})
}

// devicesOfC returns the devices that C programs see.
func devicesOfC(ctx context.Context, sys *rdmasys.System) (all []doctor.CDevice) {
	found, _ := cdevices.List(os.LookupEnv(cdevices.Environment)) // listedDevices has the error
	for _, d := range found {
		c := doctor.CDevice{Name: d.Name, Device: d.Address}
		n, err := kinds.Parse(d.Address)
		if ip, ok := n.IP(); err == nil && ok {
			for _, i := range sys.Interfaces {
				if slices.ContainsFunc(i.Addrs, func(p netip.Prefix) bool { return p.Addr() == ip }) {
					c.NetDev, c.MTU = i.Name, i.MTU
				}
			}
		}
		if err == nil {
			c.Joins = joinedFabric(ctx, n)
		}
		all = append(all, c)
	}
	return all
}

// readLog reads the log of --log.
func readLog(f *doctor.Facts, name string, in io.Reader) (err error) {
	if name == "" {
		return nil
	}
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return cli.Usagef("--log: %w: give a file that can be read, or - for standard input", err)
		}
		defer file.Close()
		in = file
	}
	if f.Log, err = explain.Log(in); err != nil {
		return cli.Usagef("--log: %w", err)
	}
	if f.Log == nil {
		return cli.Usagef(
			"--log: no line of %s is known: it has no error of RDMA, or one that `ramjet explain` does not list", name)
	}
	return nil
}

// writeDiagnosis writes facts and findings. The error counts the problems.
func writeDiagnosis(out io.Writer, f *doctor.Facts, found []doctor.Finding, asJSON bool) error {
	write := func() error {
		if f.Log != nil {
			var b strings.Builder
			b.WriteString("What the log says\n\n")
			explaincmd.DescribeFound(&b, f.Log)
			b.WriteByte('\n')
			if _, err := io.WriteString(out, b.String()); err != nil {
				return err
			}
		}
		width, color := cli.TerminalStyle(out)
		return doctor.Write(out, f, found, doctor.Style{Width: width, Color: color})
	}
	if asJSON {
		write = func() error {
			return cli.WriteJSON(out, struct {
				*doctor.Facts
				Findings []doctor.Finding `json:"findings"`
			}{f, append([]doctor.Finding{}, found...)}) // not null
		}
	}
	if err := write(); err != nil {
		return err
	}
	switch n := doctor.Problems(found); n {
	case 0:
		return nil
	case 1:
		return errors.New("1 problem to fix")
	default:
		return fmt.Errorf("%d problems to fix", n)
	}
}

// askedDevice reports whether an argument of doctor is a device, and not a host. If so it leaves the other devices out
// of the facts.
func askedDevice(f *doctor.Facts, name string) bool {
	of := func(keep func(d *rdmasys.Device) bool) bool {
		found := slices.DeleteFunc(slices.Clone(f.System.Devices), func(d rdmasys.Device) bool { return !keep(&d) })
		if len(found) > 0 {
			f.System.Devices, f.Asked = found, &doctor.Asked{Name: name}
		}
		return len(found) > 0
	}
	kernels := name
	if n, err := kinds.Parse(name); err == nil && n.Kind.Hardware {
		kernels = n.Address
	}
	if of(func(d *rdmasys.Device) bool { return d.Name == kernels }) {
		return true
	}
	if of(func(d *rdmasys.Device) bool {
		return slices.ContainsFunc(d.Ports, func(p rdmasys.Port) bool { return p.NetDev == name })
	}) {
		return true
	}
	device := name
	if i, err := net.InterfaceByName(name); err == nil {
		ip := addressOf(i)
		if ip == "" {
			return false
		}
		device = kinds.Default().NameAt(ip).String()
	}
	if n, err := kinds.Parse(device); err != nil || n.Unnamed() {
		return false
	}
	f.System.Devices = nil
	f.Asked = &doctor.Asked{Name: name, Device: device}
	dev, done, err := cli.OpenDevice(device, "", io.Discard)
	if err != nil {
		f.Asked.Problem = strings.TrimPrefix(err.Error(), "ramjet: ")
		return true
	}
	f.Asked.Detail = dev.Query().OneSided
	done()
	return true
}

// addressOf returns the first address of an interface that others reach, or nothing.
func addressOf(i *net.Interface) string {
	addrs, _ := i.Addrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && (n.IP.IsGlobalUnicast() || n.IP.IsLoopback()) {
			return n.IP.String()
		}
	}
	return ""
}

// softKinds tries each kind of device in software.
func softKinds() (all []doctor.Soft) {
	for _, k := range kinds.Table {
		if k.Hardware {
			continue
		}
		s := doctor.Soft{Kind: k.Name, Text: k.Text, Port: k.Port, Host: k.Host}
		if s.Needs = whatItNeeds(k); s.Needs == "" {
			trySoft(k, &s)
		}
		all = append(all, s)
	}
	return all
}

// whatItNeeds returns the requirement of a kind that is missing here; empty: it can be tried.
func whatItNeeds(k *kinds.Kind) string {
	switch {
	case k.TLS:
		return "takes certificates: --tls-cert, --tls-key and --tls-ca"
	case k.Soft:
		if local, err := k.Local(); err == nil && len(local) > 0 {
			return "a fabric runs: `ramjet fabric show` draws it"
		}
		return "takes a fabric: `ramjet fabric --fat-tree 4,2` runs one"
	case k.Link:
		local, err := k.Local()
		if err == nil && len(local) > 0 {
			return "can be opened on " + local[0].Address
		}
		return "takes " + k.Needs + ", and an Ethernet interface that is up"
	}
	return ""
}

// trySoft opens a device of a kind that is not in use.
func trySoft(k *kinds.Kind, s *doctor.Soft) {
	addresses := []string{""}
	if !k.Host {
		var err error
		if addresses, err = k.Spare(1); err != nil {
			s.Problem = err.Error()
			return
		}
	}
	s.Device = kinds.Name{Kind: k, Address: addresses[0]}.String()
	dev, done, err := cli.OpenDevice(s.Device, "", io.Discard)
	if errors.Is(err, verbs.ErrNotSupported) {
		s.Needs = "is not for this system"
		return
	}
	if err != nil {
		s.Problem, s.Taken = strings.TrimPrefix(err.Error(), "ramjet: "), errors.Is(err, syscall.EADDRINUSE)
		return
	}
	s.Works, s.Detail = true, dev.Query().OneSided
	done()
}

// namedDevice tries the device that the environment names.
func namedDevice() *doctor.Named {
	n, set, err := kinds.FromEnvironment()
	if !set {
		return nil
	}
	named := &doctor.Named{Variable: kinds.DeviceVariable, Device: n.String()}
	if err == nil {
		var done func() error
		if _, done, err = cli.OpenDevice(n.String(), "", io.Discard); err == nil {
			done()
		}
	}
	if err != nil {
		named.Problem = strings.TrimPrefix(err.Error(), "ramjet: ")
	}
	return named
}

// listedDevices returns the devices that the environment lists for C programs.
func listedDevices() *doctor.Listed {
	list, set := os.LookupEnv(cdevices.Environment)
	if !set {
		return nil
	}
	l := &doctor.Listed{Variable: cdevices.Environment, Names: map[string]string{}}
	all, err := cdevices.List(list, true)
	for _, d := range all {
		l.Names[d.Name] = d.Address
		if _, wrong := kinds.Parse(d.Address); err == nil {
			err = wrong
		}
	}
	if err != nil {
		l.Problem = err.Error()
	}
	return l
}
