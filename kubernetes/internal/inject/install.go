// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// command is the static command of the tree.
const command = "bin/ramjet"

// needed are the files without which containers would get nothing that works.
var needed = []string{command, "lib/libibverbs.so.1", "lib/librdmacm.so.1", "lib/libibumad.so.3", "lib/libramjet.so",
	"lib/libramjet-sysfs.so", "lib/libramjet-check.so"}

// install copies a tree into a folder of its own below folder, named by its contents, and returns that. Containers
// that run keep the tree that they were started with.
func install(tree, folder string) (string, error) {
	for _, f := range needed {
		if _, err := os.Stat(filepath.Join(tree, f)); err != nil {
			return "", err
		}
	}
	sum, err := digest(tree)
	if err != nil {
		return "", err
	}
	to := filepath.Join(folder, "files-"+sum)
	if _, err := os.Stat(to); err == nil {
		return to, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	made, err := os.MkdirTemp(folder, "new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(made) // nothing is there after the rename
	if err := copyTree(tree, made); err != nil {
		return "", err
	}
	if err := os.Chmod(made, 0o755); err != nil {
		return "", err
	}
	if err := os.Rename(made, to); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return to, nil
}

// digest is a short digest of a tree's names and contents.
func digest(tree string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(tree, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%q\n", name)
		if d.IsDir() {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(h, f)
		return err
	})
	return fmt.Sprintf("%x", h.Sum(nil)[:8]), err
}

// copyTree copies folders and files; a symbolic link becomes the file to which it leads. Every user may read them, as a
// container's programs may run as any.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		return copyFile(path, target)
	})
}

func copyFile(from, to string) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Sync(), w.Close())
}
