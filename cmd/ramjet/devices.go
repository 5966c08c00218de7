// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"net/netip"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func newDevicesCmd() *cobra.Command {
	var verbose, asJSON bool
	c := &cobra.Command{
		Use:   "devices [DEVICE...]",
		Short: "List what could be opened here, with its attributes",
		Long: "Devices lists what could be opened on this host, every local address as each kind of device, and tries to open it.\n" +
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
			return writeJSON(out, struct {
				Devices []deviceInfo `json:"devices"`
			}{append([]deviceInfo{}, found...)}) // not null
		case verbose:
			for i := range found {
				writeDeviceInfo(out, &found[i])
			}
			return nil
		}
		return writeDeviceList(out, found, len(names) == 0)
	})
}

// deviceInfo describes a device of this host.
type deviceInfo struct {
	Name     string `json:"name"`
	Openable bool   `json:"openable"`
	Problem  string `json:"problem,omitempty"` // why it cannot be opened now
	NetDev   string `json:"netdev"`
	LinkMTU  int    `json:"link_mtu_bytes"`
	Up       bool   `json:"up"`
	GID      string `json:"gid"`

	Attr *deviceAttr `json:"device,omitempty"` // of an opened device
	Port *portAttr   `json:"port,omitempty"`
}

// findDevices describes the named devices, or all devices.
func findDevices(names []string) ([]deviceInfo, error) {
	var found []deviceInfo
	if len(names) == 0 {
		all, err := localDevices()
		if err != nil {
			return nil, err
		}
		for _, l := range all {
			d := deviceInfo{Name: l.name.String(), NetDev: l.NetDev, LinkMTU: l.LinkMTU, Up: l.Up, GID: gidText(l.GID)}
			if err := d.inspect(); err != nil {
				d.Problem = err.Error()
			}
			found = append(found, d)
		}
		return found, nil
	}
	for _, name := range names {
		d := deviceInfo{Name: name}
		if err := d.inspect(); err != nil {
			return nil, usage.Of(err)
		}
		found = append(found, d)
	}
	return found, nil
}

// localDevice is a device that this host could have.
type localDevice struct {
	name kinds.Name
	kinds.Local
}

// localDevices lists what this host has of each kind, without opening anything.
func localDevices() (found []localDevice, err error) {
	for _, k := range kinds.Table {
		if !k.Listed {
			continue
		}
		local, err := k.Local()
		if err != nil {
			return nil, err
		}
		for _, l := range local {
			found = append(found, localDevice{kinds.Name{Kind: k, Address: l.Address}, l})
		}
	}
	return found, nil
}

// inspect opens the device, queries its attributes and closes it.
func (d *deviceInfo) inspect() error {
	dev, err := ramjet.Open(d.Name, hardware()...)
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

// gidText formats a GID as an IP address, an IPv4 address in its mapped form.
func gidText(g verbs.GID) string { return netip.AddrFrom16(g).String() }

// writeDeviceList writes one line for each device. all says that the list is complete.
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
		link := "-"
		if d.LinkMTU > 0 {
			link = fmt.Sprint(d.LinkMTU)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", d.Name, state, cmp.Or(d.NetDev, "-"), link, mtu, d.GID, answer)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if all {
		fmt.Fprintln(out)
		for _, k := range kinds.Table {
			if k.Beyond != "" {
				fmt.Fprintln(out, k.Beyond)
			}
		}
	}
	return nil
}
