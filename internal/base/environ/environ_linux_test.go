// SPDX-License-Identifier: Apache-2.0

package environ

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const variable = "RAMJET_ENVIRON_TEST"

// TestMain prints the variable in programs that TestGet starts.
func TestMain(m *testing.M) {
	if os.Getenv("RAMJET_ENVIRON_CHILD") != "" {
		os.Stdout.WriteString(Get(variable))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestGet holds that a program sees its user's variables, and none with more rights than its user has.
func TestGet(t *testing.T) {
	t.Setenv(variable, "value")
	if got := Get(variable); got != "value" {
		t.Errorf("Get returned %q", got)
	}
	if os.Getuid() != 0 {
		t.Skip("only root can make a program that has another user's rights")
	}
	dir, err := os.MkdirTemp("", "environ") // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var mount unix.Statfs_t
	if err := unix.Statfs(dir, &mount); err != nil {
		t.Fatal(err)
	}
	noNew, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil || noNew != 0 || mount.Flags&(unix.ST_NOSUID|unix.ST_NOEXEC) != 0 {
		t.Skip("no program can get another user's rights here")
	}
	file := dir + "/child"
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, program, 0o755); err != nil {
		t.Fatal(err)
	}
	// capability is the attribute that setcap(8) writes for cap_net_bind_service=ep: VFS_CAP_REVISION_2 with the
	// effective bit, and bit 10 of the permitted capabilities (capabilities(7)).
	capability := string([]byte{1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	for _, c := range []struct {
		name       string
		mode       os.FileMode
		capability string
		want       string
	}{
		{name: "plain", mode: 0o755, want: "value"},
		{name: "set-user-id", mode: 0o755 | os.ModeSetuid},
		{name: "capability", mode: 0o755, capability: capability},
	} {
		if err := os.Chmod(file, c.mode); err != nil {
			t.Fatal(err)
		}
		if c.capability != "" {
			if err := unix.Setxattr(file, "security.capability", []byte(c.capability), 0); err != nil {
				t.Logf("files here have no capabilities: %v", err)
				continue
			}
		}
		child := exec.Command(file)
		child.Env = append(os.Environ(), "RAMJET_ENVIRON_CHILD=1")
		child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := child.CombinedOutput()
		if err != nil && strings.Contains(err.Error(), "permission denied") {
			t.Skip("the folder of temporary files is not for other users")
		}
		if err != nil || string(out) != c.want {
			t.Errorf("%s: %q, %v; want %q", c.name, out, err, c.want)
		}
	}
}
