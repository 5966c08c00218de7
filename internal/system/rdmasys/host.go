// SPDX-License-Identifier: Apache-2.0

package rdmasys

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// RoCEPort is RoCEv2's UDP port.
const RoCEPort = 4791

// knownModules are the modules that are looked for: of the core, of soft devices, and of hardware.
var knownModules = []string{"ib_core", "ib_uverbs", "rdma_ucm", "rdma_cm", "ib_umad", "ib_ipoib", "rdma_rxe", "siw",
	"mlx4_ib", "mlx5_ib", "irdma", "iw_cxgb4", "bnxt_re", "qedr", "hns_roce_hw_v2", "efa", "mana_ib", "erdma",
	"ionic_rdma"}

// ModuleOf returns the RDMA module for NICs of a network driver; empty: none is known. sure says that
// all NICs of this driver have RDMA.
func ModuleOf(driver string) (module string, sure bool) {
	switch driver {
	case "mlx4_core", "mlx4_en":
		return "mlx4_ib", true
	case "mlx5_core":
		return "mlx5_ib", true
	case "cxgb4":
		return "iw_cxgb4", true
	case "ice", "i40e", "idpf":
		return "irdma", false
	case "bnxt_en":
		return "bnxt_re", false
	case "qede":
		return "qedr", false
	case "hns3":
		return "hns_roce_hw_v2", false
	case "mana":
		return "mana_ib", false
	case "erdma":
		return "erdma", true
	case "ionic":
		return "ionic_rdma", false
	}
	return "", false
}

// loaded returns the modules that are loaded.
func (r *reader) loaded() Modules {
	m := Modules{Loaded: make(map[string]bool), Available: make(map[string]bool)}
	if _, err := fs.Stat(r.root, "proc/modules"); err == nil {
		m.Known = true
		addKnown(m.Loaded, parseModules(r.text("proc/modules")))
	}
	for _, k := range knownModules { // modules that are part of the kernel are here, if they have parameters
		if _, err := fs.Stat(r.root, path.Join("sys/module", k)); err == nil {
			m.Loaded[k] = true
		}
	}
	return m
}

// modules returns the modules that are loaded, and modules that can be.
func (r *reader) modules(release string) Modules {
	m := r.loaded()
	if release == "" || strings.Contains(release, "/") {
		return m
	}
	at := path.Join("lib/modules", release)
	builtin := parseModuleFiles(r.text(path.Join(at, "modules.builtin")))
	addKnown(m.Loaded, builtin)
	addKnown(m.Available, builtin)
	addKnown(m.Available, parseModuleFiles(r.text(path.Join(at, "modules.dep"))))
	return m
}

// addKnown adds the known modules among names to a set.
func addKnown(to map[string]bool, names []string) {
	for _, n := range names {
		if slices.Contains(knownModules, n) {
			to[n] = true
		}
	}
}

// KubernetesVariable is a variable that each container of Kubernetes has.
const KubernetesVariable = "KUBERNETES_SERVICE_HOST"

// container returns the file or variable by which a container is known.
func (r *reader) container(env func(string) string) string {
	for _, f := range []string{".dockerenv", "run/.containerenv", "run/systemd/container"} {
		if _, err := fs.Stat(r.root, f); err == nil {
			return "/" + f
		}
	}
	if _, err := fs.Stat(r.root, "var/run/secrets/kubernetes.io"); err == nil {
		return "/var/run/secrets/kubernetes.io"
	}
	if env != nil && env(KubernetesVariable) != "" {
		return "$" + KubernetesVariable
	}
	return ""
}

// files reads /dev/infiniband and tries which of its files can be opened.
func (r *reader) files(open func(string) error) (found []File) {
	const folder = "dev/infiniband"
	for _, name := range r.list(folder, maxDevices) {
		if !strings.HasPrefix(name, "uverbs") && name != ConnectFile {
			continue // others are for administrators
		}
		f := File{Name: name}
		if info, err := fs.Stat(r.root, path.Join(folder, name)); err == nil {
			f.Mode = info.Mode()
		}
		if open != nil {
			if f.Problem = open("/" + path.Join(folder, name)); f.Problem != nil {
				f.Text = f.Problem.Error()
			}
		}
		found = append(found, f)
	}
	return found
}

func (r *reader) udpPorts() []UDPPort {
	return append(parseUDP(r.text("proc/net/udp"), RoCEPort), parseUDP(r.text("proc/net/udp6"), RoCEPort)...)
}

func (r *reader) parameters() Parameters {
	n := func(name string) int64 {
		text := r.text(path.Join("proc/sys", name))
		if text == "" {
			return -1
		}
		return parseNumber(text)
	}
	return Parameters{
		RecvBufferMax:  n("net/core/rmem_max"),
		PtraceScope:    n("kernel/yama/ptrace_scope"),
		UserNamespaces: n("user/max_user_namespaces"),
		UserNSAllowed:  n("kernel/apparmor_restrict_unprivileged_userns"),
	}
}
