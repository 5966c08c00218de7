// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #define _GNU_SOURCE
// #include <stdlib.h>
// #include "objects.h"
import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/internal/device/cdevices"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/trace"
)

// recording is the file for the packets of all devices of this process, if its environment names one. It begins
// with the first device. devicesMu guards it.
var recording struct {
	begun  bool
	writer *trace.Writer // nil: nothing is recorded
}

// loggedInC is the option of devices whose program's calls c/log.c logs.
func loggedInC(o *kinds.Options) { o.CallsLogged = true }

// recorded returns the options that record a device. Where nothing can be recorded the program runs without,
// and standard error says so.
func recorded(name string) []ramjet.Option {
	pattern := recordingPattern()
	if pattern == "" {
		return nil
	}
	if n, err := kinds.Parse(name); err == nil && n.Kind.Unrecorded != "" {
		fmt.Fprintf(os.Stderr, "ramjet: %s: %s is not recorded: %s\n", cdevices.Recording, name, n.Kind.Unrecorded)
		return nil
	}
	if !recording.begun {
		recording.begun = true
		var err error
		if recording.writer, err = beginRecording(cdevices.RecordingName(pattern, os.Getpid())); err != nil {
			fmt.Fprintf(os.Stderr, "ramjet: %s: nothing is recorded, and the program runs without: %v\n",
				cdevices.Recording, err)
		}
	}
	if recording.writer == nil {
		return nil
	}
	return []ramjet.Option{ramjet.WithTrace(recording.writer)}
}

// recordingPattern returns the variable's value. Programs with more rights than their user have none.
func recordingPattern() string {
	c := C.CString(cdevices.Recording)
	defer C.free(unsafe.Pointer(c))
	if v := C.secure_getenv(c); v != nil {
		return C.GoString(v)
	}
	return ""
}

// beginRecording creates the file, which stays open until the process ends, and says so if it has another name.
func beginRecording(name string) (*trace.Writer, error) {
	file, err := cdevices.CreateRecording(name)
	if err != nil {
		return nil, err
	}
	w, err := trace.NewWriter(file, fmt.Sprintf("%s (%d)", filepath.Base(executable()), os.Getpid()))
	if err != nil {
		file.Close()
		return nil, err
	}
	if file.Name() != name {
		fmt.Fprintf(os.Stderr, "ramjet: %s: %s exists: process %d records in %s\n", cdevices.Recording, name,
			os.Getpid(), file.Name())
	}
	return w, nil
}

// executable names the program, for people.
func executable() string {
	if name, err := os.Executable(); err == nil {
		return name
	}
	return "program"
}

// endRecording completes the file as the process exits.
func endRecording() {
	devicesMu.Lock()
	defer devicesMu.Unlock()
	if recording.writer == nil {
		return
	}
	if err := recording.writer.Close(); err != nil {
		fmt.Fprintf(os.Stderr, "ramjet: %s: the recording is not complete: %v\n", cdevices.Recording, err)
	} else if n := recording.writer.Dropped(); n > 0 {
		fmt.Fprintf(os.Stderr, "ramjet: %s: %d packets came faster than the file was written, and are not in it\n",
			cdevices.Recording, n)
	}
}
