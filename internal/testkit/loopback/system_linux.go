// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// TellsIdentification says why the system does not tell which IPv4 identification a
// connected socket sends; nil: it does, as Linux since 5.14 unless it is told not to.
func TellsIdentification() error {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err
	}
	release := unix.ByteSliceToString(name.Release[:])
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return fmt.Errorf("kernel %q: %w", release, err)
	}
	if major < 5 || major == 5 && minor < 14 {
		return fmt.Errorf("kernel %s: it takes Linux 5.14", release)
	}
	const allow = "/proc/sys/net/core/tstamp_allow_data"
	// a network namespace may not have it
	if b, err := os.ReadFile(allow); err == nil && string(bytes.TrimSpace(b)) != "1" {
		return fmt.Errorf("%s is %s", allow, b)
	}
	return nil
}
