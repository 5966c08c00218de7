// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// RDMA is this command under the name of iproute2's rdma: it shows the programs of `ramjet run` Ramjet's devices as
// that shows the kernel's, in the same formats.
func RDMA(args []string, root string, out, log io.Writer) error {
	asJSON := false
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { // which may be anywhere
		asJSON = asJSON || a == "--json" || strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") &&
			strings.Contains(a, "j")
		return strings.HasPrefix(a, "-")
	})
	if len(args) > 1 && !strings.HasPrefix("show", args[1]) && !strings.HasPrefix("list", args[1]) {
		return fmt.Errorf("%q cannot be done: the devices are Ramjet's, `show` shows them", strings.Join(args, " "))
	}
	only := ""
	if len(args) > 2 {
		only, _, _ = strings.Cut(args[2], "/")
	}
	shown, err := rdmaDevices(root, only)
	if err != nil {
		return err
	}
	var rows []any
	var lines []string
	object := cmp.Or(strings.Join(args[:min(len(args), 1)], ""), "dev")
	for _, d := range shown {
		switch {
		case strings.HasPrefix("link", object):
			rows = append(rows, d.link)
			lines = append(lines, fmt.Sprintf("link %s/%d state %s physical_state %s netdev %s", d.Name, d.link.Port,
				d.link.State, d.link.Physical, d.link.NetDev))
		case strings.HasPrefix("dev", object):
			rows = append(rows, d)
			lines = append(lines, fmt.Sprintf("%d: %s: node_type %s fw %s node_guid %s sys_image_guid %s", d.Index,
				d.Name, d.Type, d.Firmware, d.GUID, d.Image))
		case strings.HasPrefix("resource", object):
			rows = append(rows, resources{d.Index, d.Name})
			lines = append(lines, fmt.Sprintf("%d: %s:", d.Index, d.Name))
		case strings.HasPrefix("statistic", object):
			rows = append(rows, counters{d.Name, d.link.Port})
			lines = append(lines, fmt.Sprintf("link %s/%d", d.Name, d.link.Port))
		default:
			return fmt.Errorf("object %q is not known: dev, link, resource, statistic", object)
		}
	}
	if strings.HasPrefix("resource", object) || strings.HasPrefix("statistic", object) {
		fmt.Fprintln(log, "rdma: what a device does is known in the processes that use it, and not told here")
	}
	if asJSON {
		return json.NewEncoder(out).Encode(append([]any{}, rows...)) // not null
	}
	for _, l := range lines {
		fmt.Fprintln(out, l)
	}
	return nil
}

// rdmaDevice is a row of `rdma dev`, rdmaLink one of `rdma link`. The other objects have only
// names.
type rdmaDevice struct {
	Index    int    `json:"ifindex"`
	Name     string `json:"ifname"`
	Type     string `json:"node_type"`
	Firmware string `json:"fw"`
	GUID     string `json:"node_guid"`
	Image    string `json:"sys_image_guid"`
	link     rdmaLink
}

type rdmaLink struct {
	Index    int    `json:"ifindex"`
	Port     int    `json:"port"`
	Name     string `json:"ifname"`
	State    string `json:"state"`
	Physical string `json:"physical_state"`
	NetDev   string `json:"netdev,omitempty"`
	NetIndex int    `json:"netdev_ifindex,omitempty"`
}

type resources struct {
	Index int    `json:"ifindex"`
	Name  string `json:"ifname"`
}

type counters struct {
	Name string `json:"ifname"`
	Port int    `json:"port"`
}

// rdmaDevices reads the devices, or only one, from the folder that stands for /sys.
func rdmaDevices(root, only string) ([]rdmaDevice, error) {
	if root == "" {
		return nil, errors.New("there is no " + SysfsVariable + ": this command is for programs of `ramjet run`")
	}
	class := filepath.Join(root, "sys/class/infiniband")
	var all []rdmaDevice
	for i := 0; ; i++ {
		name, err := read(root, fmt.Sprintf("sys/class/infiniband_verbs/uverbs%d/ibdev", i))
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, err
		}
		if only != "" && only != name {
			continue
		}
		get := func(file string) string { // a missing file is an unknown value
			text, _ := read(class, name+"/"+file)
			_, last, numbered := strings.Cut(text, ": ")
			if numbered {
				return last
			}
			return text
		}
		d := rdmaDevice{Index: i, Name: name, Type: strings.ToLower(get("node_type")), Firmware: get("fw_ver"),
			GUID:  get("node_guid"),
			Image: get("sys_image_guid")}
		d.link = rdmaLink{Index: i, Port: 1, Name: name, State: get("ports/1/state"), Physical: "DISABLED",
			NetDev: get("ports/1/gid_attrs/ndevs/0")}
		if get("ports/1/phys_state") == "LinkUp" {
			d.link.Physical = "LINK_UP"
		}
		if ifi, err := net.InterfaceByName(d.link.NetDev); err == nil {
			d.link.NetIndex = ifi.Index
		}
		all = append(all, d)
	}
	if only != "" && len(all) == 0 {
		return nil, fmt.Errorf("there is no device %s", only)
	}
	return all, nil
}

func read(root, path string) (string, error) {
	b, err := os.ReadFile(filepath.Join(root, path))
	return strings.TrimSuffix(string(b), "\n"), err
}
