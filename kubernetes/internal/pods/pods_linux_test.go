// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

const long = 2 * time.Minute

// world is a node: ramjet-kubelet runs on it, and a kubelet's protocol is spoken with it.
type world struct {
	root    string
	cdi     string
	plugin  v1beta1.DevicePluginClient
	devices int
	given   string // the device of the last container
	metrics string // the URL
	pods    podResources
}

// podResources tells which containers have which devices, as the kubelet does: a pod for each device.
type podResources struct {
	podresources.UnimplementedPodResourcesListerServer
	devices int
}

const resource = "rdma/hca_shared_devices_a"

func deviceName(n int) string { return fmt.Sprintf("rdma_hca_shared_devices_a-%d", n) }

func (p *podResources) List(context.Context,
	*podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	var r podresources.ListPodResourcesResponse
	for n := range p.devices {
		r.PodResources = append(r.PodResources,
			&podresources.PodResources{Name: fmt.Sprintf("pod-%d", n), Namespace: "ml",
				Containers: []*podresources.ContainerResources{{Name: "main",
					Devices: []*podresources.ContainerDevices{{ResourceName: resource,
						DeviceIds: []string{deviceName(n)}}}}}})
	}
	return &r, nil
}

type kubelet struct {
	v1beta1.UnimplementedRegistrationServer
	registered chan string
}

func (k *kubelet) Register(_ context.Context, r *v1beta1.RegisterRequest) (*v1beta1.Empty, error) {
	k.registered <- r.Endpoint
	return &v1beta1.Empty{}, nil
}

// Unmodified programs in two containers without privileges talk to each other over the devices that they were given.
func TestPods(t *testing.T) {
	if os.Getenv("RAMJET_LONG") == "" {
		t.Skip("it builds the C libraries: set RAMJET_LONG=1")
	}
	if os.Getuid() != 0 {
		t.Skip("containers and network namespaces need root here")
	}
	for _, tool := range []string{"runc", "ip", "gcc", "ibv_rc_pingpong", "ib_write_bw"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s: on Debian, apt-get install runc iproute2 gcc libibverbs-dev librdmacm-dev ibverbs-utils perftest", tool)
		}
	}
	w := newWorld(t)
	server, client := w.namespaces(t)

	devices := w.container(t, client, "ls", "/sys/class/infiniband")
	if out, err := devices.CombinedOutput(); err != nil || !strings.Contains(string(out), "roce0") {
		t.Errorf("ls /sys/class/infiniband: %v: %s", err, out)
	}
	info := w.container(t, client, "ibv_devinfo", "-d", "roce0")
	if out, err := info.CombinedOutput(); err != nil || !strings.Contains(string(out), "roce:"+clientAddress) {
		t.Errorf("ibv_devinfo: %v: %s", err, out)
	}
	for _, program := range [][]string{
		{"ibv_rc_pingpong", "-d", "roce0", "-g", "0"},
		{"ib_write_bw", "-d", "roce0", "-n", "200"},
	} {
		t.Run(program[0], func(t *testing.T) { w.between(t, server, client, program) })
	}
}

// scraped waits until the devices of a container are scraped with the labels of its pod.
func (w *world) scraped(t *testing.T, device string) {
	t.Helper()
	want := fmt.Sprintf(`ramjet_info{namespace="ml",pod="pod-%s",container="main",`,
		device[strings.LastIndexByte(device, '-')+1:])
	for end := time.Now().Add(long); ; time.Sleep(100 * time.Millisecond) {
		r, err := http.Get(w.metrics)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err == nil && strings.Contains(string(text), want) &&
			strings.Contains(string(text), `device="roce:`+serverAddress) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%v, no %s in\n%s", err, want, text)
		}
	}
}

// between runs a program's server in one container, and its client in another until it finds the server.
func (w *world) between(t *testing.T, server, client string, program []string) {
	s := w.container(t, server, program...)
	var heard bytes.Buffer
	s.Stdout, s.Stderr = &heard, &heard
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Wait() }()
	w.scraped(t, w.given)
	for end := time.Now().Add(long); ; time.Sleep(100 * time.Millisecond) {
		c := w.container(t, client, append(append([]string{}, program...), serverAddress)...)
		out, err := c.CombinedOutput()
		if err == nil {
			t.Logf("%s", out)
			break
		}
		if time.Now().After(end) || !strings.Contains(string(out), "onnect") {
			t.Fatalf("the client: %v: %s", err, out)
		}
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the server: %v: %s", err, heard.Bytes())
		}
	case <-time.After(long):
		s.Process.Kill()
		t.Error("the server does not end")
	}
}

// newWorld builds the programs and starts ramjet-kubelet.
func newWorld(t *testing.T) *world {
	t.Helper()
	root, err := os.MkdirTemp("", "pods")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	w := &world{root: root, cdi: filepath.Join(root, "cdi")}
	files, plugins := filepath.Join(root, "opt"), filepath.Join(root, "kubelet", "device-plugins")
	for _, dir := range []string{files, plugins} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	build(t, "../../..", "CGO_ENABLED=0", "go", "build", "-tags", "nokernel", "-o",
		filepath.Join(files, "bin", "ramjet"), "./cmd/ramjet")
	build(t, "../../..", "CGO_ENABLED=1", "cabi/build.sh", filepath.Join(files, "lib"))
	program := filepath.Join(root, "ramjet-kubelet")
	build(t, "../..", "CGO_ENABLED=0", "go", "build", "-o", program, "./cmd/ramjet-kubelet")

	l, err := net.Listen("unix", filepath.Join(plugins, "kubelet.sock"))
	if err != nil {
		t.Fatal(err)
	}
	k := &kubelet{registered: make(chan string, 8)}
	s := grpc.NewServer()
	v1beta1.RegisterRegistrationServer(s, k)
	go s.Serve(l) //nolint:errcheck // it ends with Stop
	t.Cleanup(s.Stop)
	w.resources(t)

	text := fmt.Sprintf("resources: [{name: %s, devices: %d}]\nfiles: %s\nfolder: %s\ncdi: %s\nkubelet: %s\nhardware: beside\nmetrics: 127.0.0.1:0\n",
		resource, offered, files, filepath.Join(root, "node"), w.cdi, filepath.Join(root, "kubelet"))
	config := filepath.Join(root, "config.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := exec.Command(program, "--config", config)
	log, err := run.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	address := make(chan string, 1)
	logged := make(chan struct{})
	go func() { // until the program ends
		defer close(logged)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			fmt.Fprintln(os.Stderr, lines.Text())
			if _, a, ok := strings.Cut(lines.Text(), "msg=metrics address="); ok {
				address <- a
			}
		}
	}()
	t.Cleanup(func() {
		run.Process.Signal(os.Interrupt)
		<-logged
		if err := run.Wait(); err != nil {
			t.Errorf("ramjet-kubelet: %v", err)
		}
	})
	select {
	case endpoint := <-k.registered:
		c, err := grpc.NewClient("unix://"+filepath.Join(plugins, endpoint),
			grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		w.plugin = v1beta1.NewDevicePluginClient(c)
	case <-time.After(long):
		t.Fatal("ramjet-kubelet does not register")
	}
	w.metrics = "http://" + <-address + "/metrics" // which it has before it registers
	return w
}

// offered is how many devices there are.
const offered = 100

// resources serves the pods' devices, as a kubelet does.
func (w *world) resources(t *testing.T) {
	t.Helper()
	folder := filepath.Join(w.root, "kubelet", "pod-resources")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(folder, "kubelet.sock"))
	if err != nil {
		t.Fatal(err)
	}
	w.pods.devices = offered
	s := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(s, &w.pods)
	go s.Serve(l) //nolint:errcheck // it ends with Stop
	t.Cleanup(s.Stop)
}

func build(t *testing.T, dir, env string, command ...string) {
	t.Helper()
	c := exec.Command(command[0], command[1:]...)
	c.Dir, c.Env = dir, append(os.Environ(), env)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", command, err, out)
	}
}

// The addresses are in two network namespaces, so nobody else has them.
const (
	serverAddress = "10.244.0.1"
	clientAddress = "10.244.0.2"
)

// namespaces makes two network namespaces with a cable between them, as a network plugin gives pods.
func (w *world) namespaces(t *testing.T) (server, client string) {
	t.Helper()
	server, client = filepath.Base(w.root)+"-s", filepath.Base(w.root)+"-c"
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v: %s", args, err, out)
		}
	}
	for _, ns := range []string{server, client} {
		ip("netns", "add", ns)
		t.Cleanup(func() { exec.Command("ip", "netns", "delete", ns).Run() })
	}
	ip("-n", server, "link", "add", "eth0", "mtu", "1450", "type", "veth", "peer", "name", "eth0", "mtu", "1450",
		"netns", client)
	for ns, address := range map[string]string{server: serverAddress, client: clientAddress} {
		ip("-n", ns, "address", "add", address+"/24", "dev", "eth0")
		ip("-n", ns, "link", "set", "lo", "up")
		ip("-n", ns, "link", "set", "eth0", "up")
	}
	for _, ns := range []string{server, client} { // the kernel takes a moment to say that a cable has both ends
		for end := time.Now().Add(long); ; time.Sleep(20 * time.Millisecond) {
			out, err := exec.Command("ip", "-n", ns, "link", "show", "eth0").CombinedOutput()
			if err == nil && bytes.Contains(out, []byte("state UP")) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%v: %s", err, out)
			}
		}
	}
	return server, client
}

// container returns the command that runs a program in a container as a runtime makes it: with the plugin's answer to
// the kubelet, as an ordinary user without capabilities, on a read-only root.
func (w *world) container(t *testing.T, namespace string, program ...string) *exec.Cmd {
	t.Helper()
	device := deviceName(w.devices % offered)
	w.given = device
	w.devices++
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := w.plugin.Allocate(ctx, &v1beta1.AllocateRequest{
		ContainerRequests: []*v1beta1.ContainerAllocateRequest{{DevicesIds: []string{device}}},
	}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	cache, err := cdi.NewCache(cdi.WithSpecDirs(w.cdi))
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := os.MkdirTemp(w.root, "bundle")
	if err != nil {
		t.Fatal(err)
	}
	spec := containerSpec(namespace, program)
	for _, d := range r.ContainerResponses[0].CdiDevices {
		if _, err := cache.InjectDevices(spec, d.Name); err != nil {
			t.Fatal(err)
		}
	}
	rootfs := filepath.Join(bundle, "rootfs")
	for _, m := range spec.Mounts { // a runtime's images have these, or it makes them
		if err := os.MkdirAll(filepath.Join(rootfs, m.Destination), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"bin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+link, filepath.Join(rootfs, link)); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return exec.Command("runc", "--root", filepath.Join(w.root, "runc"), "run", "--bundle", bundle,
		filepath.Base(w.root)+"-"+filepath.Base(bundle))
}

func containerSpec(namespace string, program []string) *oci.Spec {
	bind := func(path string) oci.Mount {
		return oci.Mount{Source: path, Destination: path, Type: "bind", Options: []string{"ro", "rbind"}}
	}
	return &oci.Spec{
		Version: "1.0.2",
		Root:    &oci.Root{Path: "rootfs", Readonly: true},
		Process: &oci.Process{
			Args: program, Cwd: "/", User: oci.User{UID: 65534, GID: 65534}, NoNewPrivileges: true,
			Env: []string{"PATH=/usr/bin:/bin"}, Capabilities: &oci.LinuxCapabilities{},
		},
		Mounts: []oci.Mount{
			bind("/usr"), bind("/etc"),
			{Source: "proc", Destination: "/proc", Type: "proc"},
			{Source: "sysfs", Destination: "/sys", Type: "sysfs", Options: []string{"ro", "nosuid", "noexec", "nodev"}},
			{Source: "tmpfs", Destination: "/dev", Type: "tmpfs", Options: []string{"nosuid", "mode=755"}},
			{Source: "tmpfs", Destination: "/tmp", Type: "tmpfs", Options: []string{"nosuid", "nodev", "mode=1777"}},
			{Source: "tmpfs", Destination: "/opt", Type: "tmpfs", Options: []string{"mode=755"}},
			{Source: "tmpfs", Destination: "/run", Type: "tmpfs", Options: []string{"mode=755"}},
		},
		Linux: &oci.Linux{
			Namespaces: []oci.LinuxNamespace{
				{Type: oci.PIDNamespace}, {Type: oci.MountNamespace}, {Type: oci.IPCNamespace},
				{Type: oci.NetworkNamespace, Path: "/run/netns/" + namespace},
			},
		},
	}
}
