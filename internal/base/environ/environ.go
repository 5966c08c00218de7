// SPDX-License-Identifier: Apache-2.0

// Package environ reads the environment of programs. A program with more rights than its user has no variables here:
// by variables, the user could have it write files of others. C's libraries use secure_getenv(3).
package environ

import "os"

// Get returns the value of a variable, or nothing if the program runs with another user's or group's rights
// (set-user-id, set-group-id), or on Linux with capabilities of its file.
func Get(name string) string {
	if os.Getuid() != os.Geteuid() || os.Getgid() != os.Getegid() || secure() {
		return ""
	}
	return os.Getenv(name)
}
