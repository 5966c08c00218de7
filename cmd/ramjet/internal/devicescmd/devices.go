// SPDX-License-Identifier: Apache-2.0

// Package devicescmd is `ramjet devices`.
package devicescmd

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
	"github.com/ramjet-rdma/ramjet/internal/device/cdevices"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// New returns `ramjet devices`.
func New() *cobra.Command {
	var verbose, asJSON bool
	c := &cobra.Command{
		Use:   "devices [DEVICE...]",
		Short: "List the devices that can be opened here, with their attributes",
		Long: "Devices lists the devices that can be opened on this host, one of each kind for every local address, and tries to\n" +
			"open each. With DEVICE arguments, such as roce:127.0.0.2, it shows only those; kernel: stands for all of the\n" +
			"kernel's. MTU is the path MTU of the port, active_mtu in ibv_devinfo.",
		Example: "  ramjet devices\n  ramjet devices -v roce:127.0.0.1\n  ramjet devices --json",
	}
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "show all attributes, under the names of ibv_devinfo -v")
	c.Flags().BoolVar(&asJSON, "json", false, "write all attributes as JSON")
	return cli.Leaf(c, func(c *cobra.Command, names []string) error {
		found, err := findDevices(names)
		if err != nil {
			return err
		}
		nameForC(found)
		out := c.OutOrStdout()
		switch {
		case asJSON:
			return cli.WriteJSON(out, struct {
				Devices []Info `json:"devices"`
			}{append([]Info{}, found...)}) // not null
		case verbose:
			for i := range found {
				writeDeviceInfo(out, &found[i])
			}
			return nil
		}
		width, color := cli.TableStyle(out)
		return writeDeviceList(out, found, len(names) == 0, width, color)
	})
}

// Info describes a device of this host.
type Info struct {
	Name     string `json:"name"`
	CName    string `json:"c_name,omitempty"` // its name for C programs, if they see it in this environment
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
func findDevices(names []string) ([]Info, error) {
	var found []Info
	if len(names) == 0 {
		all, err := Local()
		if err != nil {
			return nil, err
		}
		for _, l := range all {
			d := Info{Name: l.Name.String(), NetDev: l.NetDev, LinkMTU: l.LinkMTU, Up: l.Up, GID: cli.GIDText(l.GID)}
			if err := d.inspect(); err != nil {
				d.Problem = err.Error()
			}
			found = append(found, d)
		}
		return found, nil
	}
	for _, name := range names {
		for _, one := range meant(name) {
			d := Info{Name: one}
			if err := d.inspect(); err != nil {
				return nil, usage.Of(err)
			}
			found = append(found, d)
		}
	}
	return found, nil
}

// nameForC fills in the names that C programs see.
func nameForC(found []Info) {
	listed, _ := cdevices.List(os.LookupEnv(cdevices.Environment)) // `ramjet doctor` reports its errors
	for i := range found {
		for _, d := range listed {
			if d.Address == found[i].Name {
				found[i].CName = d.Name
			}
		}
	}
}

// meant returns the names of the devices that a name stands for: all of the kernel's if it leaves open which.
func meant(name string) (all []string) {
	n, err := kinds.Parse(name)
	if err != nil || !n.Unnamed() {
		return []string{name}
	}
	local, err := n.Kind.Local()
	if err != nil || len(local) == 0 {
		return []string{name} // opening it says why
	}
	for _, l := range local {
		all = append(all, kinds.Name{Kind: n.Kind, Address: l.Address}.String())
	}
	return all
}

// localDevice is a device that this host could have.
type localDevice struct {
	Name kinds.Name
	kinds.Local
}

// Local lists this host's devices of each kind, without opening any.
func Local() (found []localDevice, err error) {
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
func (d *Info) inspect() error {
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
		d.GID = cli.GIDText(gids[0].GID)
	}
	d.Attr, d.Port = newDeviceAttr(dev.Query()), newPortAttr(port, gids, pkeys)
	return nil
}

// writeDeviceList writes a line for each device, and below it why it cannot be opened, in 80 columns unless
// names are longer. all says that the list is complete. A terminal of fewer columns, width, has only the columns for
// which it has room, from the left.
func writeDeviceList(out io.Writer, found []Info, all bool, width int, color bool) error {
	prose := cli.StandardWidth
	if width > 0 {
		prose = min(width, prose)
	}
	rows := [][4]string{{"DEVICE", "STATE", "NETDEV", "MTU"}}
	for i := range found {
		d := &found[i]
		state, mtu := "DOWN", "-"
		if d.Up {
			state = "ACTIVE"
		}
		if d.Openable {
			mtu = d.Port.ActiveMTU
		}
		rows = append(rows, [4]string{d.Name, state, cmp.Or(d.NetDev, "-"), mtu})
	}
	name, netDev := 0, 0
	for _, r := range rows {
		name, netDev = max(name, len(r[0])), max(netDev, len(r[2]))
	}
	var b strings.Builder
	sizes := [4]int{name, 6, netDev, 3}
	shown, total := 1, sizes[0]
	for shown < len(sizes) && (width == 0 || total+2+sizes[shown] <= width) {
		total += 2 + sizes[shown]
		shown++
	}
	for i, r := range rows {
		var cells []string
		for j := range shown {
			cell := fmt.Sprintf("%-*s", sizes[j], r[j])
			if j == shown-1 {
				cell = r[j]
			}
			cells = append(cells, colored(cell, deviceColor(i == 0, r[j], j), color))
		}
		b.WriteString(strings.TrimRight(strings.Join(cells, "  "), " ") + "\n")
		if i > 0 && !found[i-1].Openable {
			b.WriteString(colored(cli.Folded("cannot be opened: "+found[i-1].Problem, "    ", prose), cli.ColorRed,
				color))
		}
	}
	if all {
		b.WriteString("\n")
		for _, k := range kinds.Table {
			if k.Beyond != "" {
				b.WriteString(cli.Folded(k.Beyond, "", prose))
			}
		}
		b.WriteString(cli.Folded("Addresses, GIDs, limits and more of a device: `ramjet devices -v DEVICE`.", "",
			prose))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// deviceColor returns the color of a cell: of the heading, or of a state.
func deviceColor(heading bool, text string, column int) string {
	switch {
	case heading:
		return cli.ColorBold
	case column == 1 && text == "ACTIVE":
		return cli.ColorGreen
	case column == 1:
		return cli.ColorYellow
	}
	return ""
}

// colored returns text in a color, if there are any; the end of its line is outside.
func colored(text, with string, color bool) string {
	if !color || with == "" {
		return text
	}
	line := strings.TrimSuffix(text, "\n")
	return with + line + cli.ColorOff + text[len(line):]
}
