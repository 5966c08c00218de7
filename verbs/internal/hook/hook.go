// SPDX-License-Identifier: Apache-2.0

// Package hook hands functions of package verbs to package verbs/driver, which programs do not need.
// Package verbs sets each variable when it is initialized. Package driver names the function's type.
package hook

// Functions of package verbs.
var (
	NewDevice       any
	CheckTransition any

	// These return what implements an object.
	DeviceOf, PDOf, XRCDOf, MROf, MWOf, AHOf, CQOf, SRQOf, QPOf any

	// These are for packages that keep something with a device, as package cm keeps its manager.
	Local, OnClose, OnEvent, Watch any

	// These are the log of a device's calls, and the checker of its work requests.
	LogCalls, CallsOf, CheckWith any
)
