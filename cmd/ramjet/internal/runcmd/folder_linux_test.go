// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/device/cdevices"
)

// Without XDG_RUNTIME_DIR the folder that stands for /sys is in a directory in which every user can make files. It is
// this user's alone, whoever has taken its name first, and a program runs all the same.
func TestRunFolder(t *testing.T) {
	s := cdevices.NewSysfs()
	for _, c := range []struct {
		what    string
		shared  bool // by programs that see the same devices
		prepare func(t *testing.T, root string) error
	}{
		{"nothing", true, func(*testing.T, string) error { return nil }},
		{"a link", false, func(t *testing.T, root string) error { return os.Symlink(t.TempDir(), root) }},
		{"a file", false, func(_ *testing.T, root string) error { return os.WriteFile(root, nil, 0o600) }},
		{"a folder that others read", false, func(_ *testing.T, root string) error {
			if err := os.Mkdir(root, 0o755); err != nil {
				return err
			}
			return os.Chmod(root, 0o755) // whatever the umask is
		}},
		{"another user's folder", false, func(t *testing.T, root string) error {
			if os.Getuid() != 0 {
				t.Skip("needs root to give a folder away")
			}
			if err := os.Mkdir(root, 0o700); err != nil {
				return err
			}
			return os.Chown(root, 65534, 65534)
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Setenv("XDG_RUNTIME_DIR", "")
			place := t.TempDir()
			t.Setenv("TMPDIR", place)
			usual, err := folderOf(s)
			if err != nil {
				t.Fatal(err)
			}
			name := usual.root
			removed(t, usual)
			if err := c.prepare(t, name); err != nil {
				t.Fatal(err)
			}
			f, err := folderOf(s)
			if err != nil {
				t.Fatal(err)
			}
			if (f.root == name) != c.shared || filepath.Dir(f.root) != place {
				t.Errorf("the folder is %s, and %s has the usual name", f.root, name)
			}
			fi, err := os.Lstat(f.root)
			if err != nil {
				t.Fatal(err)
			}
			if !fi.IsDir() || fi.Mode().Perm() != 0o700 || int(fi.Sys().(*syscall.Stat_t).Uid) != os.Getuid() {
				t.Errorf("%v of user %d", fi.Mode(), fi.Sys().(*syscall.Stat_t).Uid)
			}
			if _, err := os.Stat(filepath.Join(f.root, "sys/class/infiniband_verbs/abi_version")); err != nil {
				t.Error(err)
			}
			removed(t, f)
		})
	}
}

// removed removes a folder, as its sweeper does in the end.
func removed(t *testing.T, f *folder) {
	t.Helper()
	f.lock.Close()
	removeFolder(f.root, syscall.LOCK_EX)
	if _, err := os.Lstat(f.root); !os.IsNotExist(err) {
		t.Fatal("the folder is still there: ", err)
	}
}
