// SPDX-License-Identifier: Apache-2.0

package rdmasys

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Injected is the library that the environment puts before the RDMA libraries of the system: `ramjet run` does for its
// program, and a container runtime for the containers of a pod.
type Injected struct {
	Folder    string    `json:"folder"`       // $RAMJET_LIBS
	Path      string    `json:"library_path"` // $LD_LIBRARY_PATH
	Libraries []Library `json:"libraries"`    // of the folder, and preloaded ones
	// the system's C library, its file; empty: there is none that is known
	Libc      string   `json:"libc,omitempty"`
	Version   string   `json:"libc_version"`        // such as GLIBC_2.36; empty: it is not glibc
	Sysfs     string   `json:"sysfs,omitempty"`     // $RAMJET_SYSFS, the folder in place of /sys; empty: none
	Described []string `json:"described,omitempty"` // the devices that it describes
	InPath    bool     `json:"folder_in_path"`      // the loader looks into the folder
}

// Library is an injected library.
type Library struct {
	File      string `json:"file"`
	Preloaded bool   `json:"preloaded,omitempty"` // programs get it in any case ($LD_PRELOAD)
	Needs     string `json:"needs,omitempty"`     // the newest version of glibc that it needs, such as GLIBC_2.34
	Problem   string `json:"problem,omitempty"`   // why programs cannot load it
}

// The variables of an injection.
const (
	libsVariable    = "RAMJET_LIBS"
	sysfsVariable   = "RAMJET_SYSFS"
	pathVariable    = "LD_LIBRARY_PATH"
	preloadVariable = "LD_PRELOAD"
)

// maxLibraries limits how many files of a folder are looked at.
const maxLibraries = 32

// injected returns the libraries that the environment injects; nil: nothing.
func (r *reader) injected(env func(string) string) *Injected {
	if env == nil || env(libsVariable) == "" {
		return nil
	}
	i := &Injected{Folder: env(libsVariable), Path: env(pathVariable), Sysfs: env(sysfsVariable)}
	i.InPath = slices.Contains(strings.Split(i.Path, ":"), i.Folder)
	i.Libc, i.Version = r.libc()
	for _, name := range r.list(rooted(i.Folder), maxLibraries) {
		if strings.Contains(name, ".so") {
			i.Libraries = append(i.Libraries, r.library(path.Join(i.Folder, name), i.Version))
		}
	}
	preload := strings.FieldsFunc(env(preloadVariable), func(c rune) bool { return c == ':' || c == ' ' })
	for _, file := range preload[:min(len(preload), maxLibraries)] {
		at := slices.IndexFunc(i.Libraries, func(l Library) bool { return l.File == file })
		if at < 0 {
			at = len(i.Libraries)
			i.Libraries = append(i.Libraries, r.library(file, i.Version))
		}
		i.Libraries[at].Preloaded = true
	}
	if i.Sysfs != "" {
		i.Described = r.list(path.Join(rooted(i.Sysfs), class), maxDevices)
	}
	return i
}

// rooted returns a path as an fs.FS has it.
func rooted(file string) string { return strings.TrimPrefix(path.Clean("/"+file), "/") }

// The machine, as ELF and the folders of Debian have it.
var (
	elfMachine = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
	multiarch  = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
)

// libc returns the file of the system's C library, and its version if it is glibc.
func (r *reader) libc() (file, version string) {
	for _, folder := range []string{"lib/" + multiarch + "-linux-gnu", "usr/lib/" + multiarch + "-linux-gnu", "lib64",
		"usr/lib64", "lib", "usr/lib"} {
		name := path.Join(folder, "libc.so.6")
		var versions []elf.DynamicVersion
		err := r.elf(name, func(f *elf.File) (err error) {
			versions, err = f.DynamicVersions()
			return err
		})
		if err != nil {
			continue
		}
		for _, v := range versions {
			if newer(v.Name, version) {
				version = v.Name
			}
		}
		return "/" + name, version
	}
	if name := "lib/ld-musl-" + multiarch + ".so.1"; r.exists(name) {
		return "/" + name, ""
	}
	return "", ""
}

func (r *reader) exists(name string) bool {
	_, err := fs.Stat(r.root, name)
	return err == nil
}

// library looks at a library that is to work with a version of glibc; empty: with another C library.
func (r *reader) library(file, version string) Library {
	l := Library{File: file}
	var machine elf.Machine
	var needs []elf.DynamicVersionNeed
	err := r.elf(rooted(file), func(f *elf.File) (err error) {
		machine = f.Machine
		if needs, err = f.DynamicVersionNeeds(); errors.Is(err, elf.ErrNoSymbols) {
			return nil // it needs none: it is static
		}
		return err
	})
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		err = p.Err
	}
	if err != nil {
		l.Problem = err.Error()
		return l
	}
	for _, n := range needs {
		for _, d := range n.Needs {
			if newer(d.Dep, l.Needs) {
				l.Needs = d.Dep
			}
		}
	}
	switch {
	case elfMachine != 0 && machine != elfMachine:
		l.Problem = fmt.Sprintf("it is for %v", machine)
	case l.Needs != "" && version == "":
		l.Problem = "it needs glibc"
	case l.Needs != "" && newer(l.Needs, version):
		l.Problem = fmt.Sprintf("it needs %s, and the system has %s", l.Needs, version)
	}
	return l
}

// elf reads from an ELF file of the system.
func (r *reader) elf(name string, read func(*elf.File) error) error {
	f, err := r.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	at, ok := f.(io.ReaderAt)
	if !ok {
		return errors.ErrUnsupported
	}
	e, err := elf.NewFile(at)
	if err != nil {
		return err
	}
	return read(e)
}

// newer reports whether a version of glibc is newer than another one, which may be empty. Versions of other libraries
// are not.
func newer(version, than string) bool {
	v, ok := glibcVersion(version)
	t, _ := glibcVersion(than)
	return ok && slices.Compare(v, t) > 0
}

// glibcVersion parses GLIBC_2.34.
func glibcVersion(text string) (numbers []int, ok bool) {
	rest, ok := strings.CutPrefix(text, "GLIBC_")
	if !ok {
		return nil, false
	}
	for part := range strings.SplitSeq(rest, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, false
		}
		numbers = append(numbers, n)
	}
	return numbers, true
}
