// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package ibsim

import "errors"

// Server serves clients of a subnet; only Linux has the names by which they meet.
type Server struct{}

// Serve fails.
func Serve(string, Subnet) (*Server, error) {
	return nil, errors.New("ibsim: libumad2sim is a library for Linux")
}

// Close does nothing.
func (*Server) Close() error { return nil }
