// SPDX-License-Identifier: Apache-2.0

package ibverbs

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// LibraryVariable is the variable of the environment that names libibverbs.so.1 by its path, in place of
// the search.
const LibraryVariable = "RAMJET_LIBIBVERBS"

// ErrNoLibrary means that the system has no libibverbs.
var ErrNoLibrary = errors.New("this system has no libibverbs.so.1: install rdma-core (Debian, Ubuntu: apt-get install libibverbs1 ibverbs-providers; Fedora: dnf install libibverbs)")

// FindLibrary returns the path of the system's libibverbs.so.1, or the value of [LibraryVariable]. It searches
// the directories of the dynamic linker, but not LD_LIBRARY_PATH, and passes over Ramjet's own library:
// under `ramjet run` that variable names it, and the NIC is behind the system's.
func FindLibrary() (string, error) {
	if path := os.Getenv(LibraryVariable); path != "" {
		return path, nil
	}
	return findIn(directories("/etc/ld.so.conf"), "libibverbs.so.1")
}

func findIn(dirs []string, name string) (string, error) {
	own := ""
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if Ours(path) {
			own = path
			continue
		}
		return path, nil
	}
	if own != "" {
		return "", fmt.Errorf("%w; %s is Ramjet's own", ErrNoLibrary, own)
	}
	return "", ErrNoLibrary
}

// Ours reports whether a library is Ramjet's, which has its Go half beside it.
func Ours(path string) bool {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	_, err := os.Stat(filepath.Join(filepath.Dir(path), "libramjet.so"))
	return err == nil
}

// directories returns where the dynamic linker looks: the directories of its configuration, and its own.
func directories(conf string) []string {
	dirs := configured(conf, 0)
	triplet := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[runtime.GOARCH]
	return append(dirs, "/lib/"+triplet, "/usr/lib/"+triplet, "/lib64", "/usr/lib64", "/lib", "/usr/lib")
}

// maxIncludes bounds how deep files of the configuration include others.
const maxIncludes = 8

// configured returns the directories that a file of the linker's configuration names (ldconfig(8)).
func configured(conf string, depth int) (dirs []string) {
	f, err := os.Open(conf)
	if err != nil || depth == maxIncludes {
		return nil
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(line)
		switch {
		case len(words) == 2 && words[0] == "include":
			pattern := words[1]
			if !filepath.IsAbs(pattern) {
				pattern = filepath.Join(filepath.Dir(conf), pattern)
			}
			files, _ := filepath.Glob(pattern)
			for _, file := range files {
				dirs = append(dirs, configured(file, depth+1)...)
			}
		case len(words) == 1 && filepath.IsAbs(words[0]) && fs.ValidPath(strings.Trim(words[0], "/")):
			dirs = append(dirs, words[0])
		}
	}
	return dirs
}
