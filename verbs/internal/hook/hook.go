// SPDX-License-Identifier: Apache-2.0

// Package hook hands functions of package verbs to packages below it, verbs/driver and verbs/umad.
// Package verbs sets each variable when it is initialized. The other packages name the function's type. Beside
// them are values of package verbs/driver that package verbs, too, has to know.
package hook

// Functions of package verbs.
var (
	NewDevice       any
	CheckTransition any

	// These return the driver's object behind an object of package verbs.
	DeviceOf, PDOf, XRCDOf, MROf, MWOf, AHOf, CQOf, SRQOf, QPOf any

	// These are for packages that keep something with a device, as package cm keeps its manager.
	Local, OnClose, OnEvent, Watch any

	// These are for objects of package umad: the driver by any of its interfaces, an object that uses a device
	// until it is closed, and errors of drivers.
	DriverOf, Use, Wrap any

	// This is for caches of regions.
	RegOptionsOf any

	// This is for programs in C, which wait at descriptors.
	ForwardEvents any

	// These are the log of a device's calls, and the checker of its work requests.
	LogCalls, CallsOf, CheckWith any
)
