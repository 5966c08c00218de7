// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/app/fabriccontrol"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
)

// adaptersShown is how many adapters are listed when a fabric is up; `ramjet fabric show` has all.
const adaptersShown = 16

// writeUp describes a fabric, and how to use it. took is how long it took to come up; 0: the command did not wait.
func (f *fabricFlags) writeUp(out io.Writer, fab *infiniband.Fabric, took time.Duration) error {
	var b bytes.Buffer
	v := fab.View()
	shown := fabriccontrol.View(v)
	fmt.Fprint(&b, shown.Summary())
	switch {
	case f.noManager:
		fmt.Fprint(&b, ", no subnet manager: ports stay in Initialize until one comes")
	case took > 0:
		fmt.Fprint(&b, ", up after ", units.Duration(took))
	}
	fmt.Fprint(&b, "\n\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ADAPTER\tIP\tLID\tSTATE")
	var names []string
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if !n.Adapter() || len(n.Ports) == 0 {
			continue
		}
		if names = append(names, n.Name); len(names) <= adaptersShown {
			lid := "-"
			if n.Ports[0].LID != 0 {
				lid = fmt.Sprint(n.Ports[0].LID)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%v\n", n.Name, n.IP, lid, shown.Nodes[i].Ports[0].State)
		}
	}
	w.Flush()
	if more := len(names) - adaptersShown; more > 0 {
		fmt.Fprintf(&b, "and %d others: ramjet fabric show%s\n", more, f.nameFlag())
	}
	if len(names) > 0 {
		device := quoted("infiniband:" + names[0] + f.option())
		fmt.Fprintf(&b, "\nDevices of this user's processes: %s, and so on, as in\n  ramjet pingpong rc -d %s\n",
			device, device)
	}
	if f.ibsim != "" {
		b.WriteString("\n" + f.toolsText())
	}
	_, err := out.Write(b.Bytes())
	return err
}

// option is the suffix of the names of the fabric's devices.
func (f *fabricFlags) option() string {
	if f.name == "" {
		return ""
	}
	return "?fabric=" + f.name
}

// nameFlag is the flag by which other commands name the fabric.
func (f *fabricFlags) nameFlag() string {
	if f.name == "" {
		return ""
	}
	return " --name " + f.name
}

// umadPatterns match the library's paths in distributions.
var umadPatterns = []string{"/usr/lib/*/umad2sim/libumad2sim.so", "/usr/lib64/umad2sim/libumad2sim.so",
	"/usr/lib/umad2sim/libumad2sim.so", "/usr/local/lib/umad2sim/libumad2sim.so"}

// UmadLibrary returns the path of libumad2sim.so; empty: it is not installed.
func UmadLibrary() string {
	for _, pattern := range umadPatterns {
		if found, err := filepath.Glob(pattern); err == nil && len(found) > 0 {
			slices.Sort(found)
			return found[0]
		}
	}
	return ""
}

// toolsText says how OpenSM and the diagnostic tools are run on the fabric.
func (f *fabricFlags) toolsText() string {
	library, note := UmadLibrary(), ""
	if library == "" {
		library, note = "libumad2sim.so",
			"\nlibumad2sim.so is not installed here: Debian's package libumad2sim0 has it."
	}
	preload := "LD_PRELOAD=" + library
	if f.ibsim != "sim" {
		preload += " IBSIM_SOCKNAME=" + f.ibsim
	}
	tool, what := "iblinkinfo", "Diagnostic tools"
	if f.noManager {
		tool, what = "opensm", "OpenSM and the diagnostic tools"
	}
	return fmt.Sprintf("%s, each at an adapter that SIM_HOST names:\n  %s %s\n", what, preload, tool) + note
}

// quoted puts a word into quotes if a shell would read more into it.
func quoted(word string) string {
	for _, r := range word {
		if r == ' ' || r == '?' || r == ';' || r == '\'' || r == '"' || r == '(' || r == ')' || r == '*' || r == '$' ||
			r == '&' {
			return "'" + word + "'"
		}
	}
	return word
}
