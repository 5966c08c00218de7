// SPDX-License-Identifier: Apache-2.0

package cdevices

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Recording is the variable that names the file for the packets of a C program.
const Recording = "RAMJET_PCAP"

// maxRecordings is how many processes may record under one name.
const maxRecordings = 10_000

// RecordingName returns the name that a pattern stands for in a process: %p is the process's id, %% a percent
// sign.
func RecordingName(pattern string, pid int) string {
	return strings.NewReplacer("%%", "%", "%p", strconv.Itoa(pid)).Replace(pattern)
}

// CreateRecording creates the file of a name. Several processes may have the same name, one after the other or
// at once, and none takes the file of another: where a file of the name exists, the file is the first of
// NAME-2, NAME-3 and so on that does not, the number before the extension. A pipe or a device is opened as it
// is.
func CreateRecording(name string) (*os.File, error) {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0) // a pipe without a reader is an error
	}
	extension := filepath.Ext(name)
	for n := 1; n <= maxRecordings; n++ {
		numbered := name
		if n > 1 {
			numbered = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, extension), n, extension)
		}
		f, err := os.OpenFile(numbered, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
	return nil, fmt.Errorf("there are %d recordings of the name %s: remove some", maxRecordings, name)
}

// CheckRecording reports why no file of a name can be created.
func CheckRecording(name string) error {
	switch info, err := os.Stat(name); {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a directory: give a file", name)
	case err == nil && !info.Mode().IsRegular():
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".ramjet-*")
	if err != nil {
		return fmt.Errorf("no file can be created in the directory of %s: %w", name, errors.Unwrap(err))
	}
	f.Close()
	return os.Remove(f.Name())
}
