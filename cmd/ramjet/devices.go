// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

func newDevicesCmd() *cobra.Command {
	var verbose, asJSON bool
	c := &cobra.Command{
		Use:   "devices [DEVICE...]",
		Short: "List what could be opened here, with its attributes",
		Long: "Devices lists every local address as the device that it could be opened as, and tries to open it.\n" +
			"Named devices are shown alone, such as roce:127.0.0.2.",
		Example: "  ramjet devices\n  ramjet devices -v roce:127.0.0.1\n  ramjet devices --json",
	}
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "all attributes, in the words of ibv_devinfo -v")
	c.Flags().BoolVar(&asJSON, "json", false, "all attributes, as JSON")
	return leaf(c, func(c *cobra.Command, names []string) error {
		found, err := findDevices(names)
		if err != nil {
			return err
		}
		out := c.OutOrStdout()
		switch {
		case asJSON:
			return writeJSON(out, found)
		case verbose:
			for i := range found {
				writeDeviceInfo(out, &found[i])
			}
			return nil
		}
		return writeDeviceList(out, found, len(names) == 0)
	})
}

// deviceInfo is what is known of a device that could be opened.
type deviceInfo struct {
	Name     string `json:"name"`
	Openable bool   `json:"openable"`
	Problem  string `json:"problem,omitempty"` // why it cannot be opened now
	NetDev   string `json:"netdev"`
	LinkMTU  int    `json:"link_mtu"`
	Up       bool   `json:"up"`
	GID      string `json:"gid"`

	Attr *deviceAttr `json:"device,omitempty"` // of a device that was opened
	Port *portAttr   `json:"port,omitempty"`
}

// findDevices describes the named devices, or all that there are.
func findDevices(names []string) ([]deviceInfo, error) {
	var found []deviceInfo
	if len(names) == 0 {
		all, err := localDevices()
		if err != nil {
			return nil, err
		}
		for i := range all {
			if err := all[i].inspect(); err != nil {
				all[i].Problem = err.Error()
			}
		}
		return all, nil
	}
	for _, name := range names {
		d := deviceInfo{Name: name}
		if err := d.inspect(); err != nil {
			return nil, usageError{err}
		}
		found = append(found, d)
	}
	return found, nil
}

// localDevices lists this host's addresses as devices, without opening them.
func localDevices() ([]deviceInfo, error) {
	ifs, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("listing network interfaces: %w", err)
	}
	var found []deviceInfo
	for _, i := range ifs {
		nets, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("listing the addresses of %s: %w", i.Name, err)
		}
		for _, n := range nets {
			p, err := netip.ParsePrefix(n.String())
			if err != nil {
				continue // no IP address
			}
			addr := p.Addr().Unmap()
			if addr.Is6() && addr.IsLinkLocalUnicast() {
				addr = addr.WithZone(i.Name)
			}
			d := deviceInfo{Name: "roce:" + addr.String(), NetDev: i.Name, LinkMTU: i.MTU, Up: i.Flags&net.FlagUp != 0,
				GID: gidText(ib.GIDFromAddr(addr))}
			found = append(found, d)
			if runtime.GOOS == "linux" { // elsewhere there is no iWARP over TCP
				d.Name = "iwarp:" + addr.String()
				found = append(found, d)
			}
		}
	}
	return found, nil
}

// inspect opens the device, asks for its attributes and closes it.
func (d *deviceInfo) inspect() error {
	dev, err := ramjet.Open(d.Name)
	if err != nil {
		return err
	}
	defer dev.Close()
	port, err := dev.Port(1)
	if err != nil {
		return err
	}
	gids, err := dev.GIDs(1)
	if err != nil {
		return err
	}
	pkeys, err := dev.PKeys(1)
	if err != nil {
		return err
	}
	d.Openable = true
	d.NetDev, d.LinkMTU, d.Up = port.NetDev, port.LinkMTU, port.State == verbs.PortActive
	if len(gids) > 0 {
		d.GID = gidText(gids[0].GID)
	}
	d.Attr, d.Port = newDeviceAttr(dev.Query()), newPortAttr(port, gids, pkeys)
	return nil
}

// gidText writes a GID as the address that it is made of, an IPv4 address mapped into IPv6.
func gidText(g verbs.GID) string { return netip.AddrFrom16(g).String() }

// writeDeviceList writes a line a device. all says that the list has every device.
func writeDeviceList(out io.Writer, found []deviceInfo, all bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DEVICE\tSTATE\tNETDEV\tLINK MTU\tPATH MTU\tGID\tCAN BE OPENED")
	for _, d := range found {
		state, mtu, answer := "DOWN", "-", "no: "+d.Problem
		if d.Up {
			state = "ACTIVE"
		}
		if d.Openable {
			mtu, answer = d.Port.ActiveMTU, "yes"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", d.Name, state, cmp.Or(d.NetDev, "-"), d.LinkMTU, mtu, d.GID, answer)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if all && runtime.GOOS == "linux" {
		fmt.Fprintln(out, "\nEvery other address of 127.0.0.0/8 can be opened too: as many devices as wanted, for tests on one machine.\n"+
			"What is iwarp: here can be iwarps:, inside TLS (see --tls-cert), and iwarp+sctp:, over SCTP.")
	}
	return nil
}
