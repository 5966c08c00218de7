// SPDX-License-Identifier: Apache-2.0

// Package madagent handles the management datagrams of a program's agent as the kernel does: it repeats requests and
// times them out (IBTA 13.4.6.2), and reassembles and acknowledges responses in segments (RMPP, section 13.6). It is
// pure: the time is a parameter of every call.
//
// A response without a request is dropped, as is a segment out of order. The size of a response is bounded. Programs
// can only send single datagrams.
package madagent
